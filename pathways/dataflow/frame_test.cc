#include "pathways/dataflow/frame.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

net::Frame ToFrame(FrameBuilder builder) {
  net::Frame frame;
  frame.header = builder.SerializeHeader();
  std::string payload;
  for (const Bytes& piece : builder.TakePayload()) payload += piece.view();
  frame.payload = Bytes::FromString(payload);
  return frame;
}

TEST(Frame, CarriesWhatWasPutIn) {
  const RunId run{HostId(3), 7};
  FrameBuilder builder;
  builder.Add(TupleMessage{run, EdgeId(2), 10, 5, {Bytes::FromString("ab"), {}}});
  builder.Add(TupleMessage{run, EdgeId(2), 11, 6, {{}, absl::AbortedError("x")}});
  builder.Add(TupleMessage{run, EdgeId(1), 1, 0, {Bytes::FromString("c"), {}}});
  ReportMessage report{run, EdgeId(2), {}};
  report.report.way = Report::Way::kUp;
  report.report.counts.Append({4, 2, 9});
  report.report.poisons.push_back({8, absl::NotFoundError("y")});
  builder.Add(report);
  builder.Add(StartMessage{1, 2, 3, "arg"});
  builder.Add(EndMessage{run, absl::CancelledError("z")});
  builder.Add(BrokenMessage{HostId(6), absl::UnavailableError("v")});
  builder.Add(LostMessage{run, HostId(7), absl::UnavailableError("w")});
  builder.Add(UninstallMessage{4});
  builder.SetConsumed(100, 200);
  EXPECT_EQ(builder.messages(), 9u);

  const auto contents = ParseFrame(ToFrame(std::move(builder)));
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_THAT(contents->tuples, SizeIs(3));
  EXPECT_EQ(contents->tuples[0].tuple.data.view(), "ab");
  EXPECT_EQ(contents->tuples[1].sequence, 11u);
  EXPECT_EQ(contents->tuples[1].shard, 6u);
  EXPECT_EQ(contents->tuples[1].tuple.error, absl::AbortedError("x"));
  EXPECT_EQ(contents->tuples[2].edge, EdgeId(1));
  EXPECT_EQ(contents->tuples[2].tuple.data.view(), "c");
  EXPECT_EQ(contents->tuples[2].run, run);
  ASSERT_THAT(contents->reports, SizeIs(1));
  EXPECT_EQ(contents->reports[0].report.counts, report.report.counts);
  EXPECT_EQ(contents->reports[0].report.way, Report::Way::kUp);
  EXPECT_EQ(contents->reports[0].report.poisons[0].status, absl::NotFoundError("y"));
  EXPECT_EQ(contents->starts[0].argument, "arg");
  EXPECT_EQ(contents->ends[0].status, absl::CancelledError("z"));
  EXPECT_EQ(contents->broken[0].host, HostId(6));
  EXPECT_EQ(contents->broken[0].status, absl::UnavailableError("v"));
  EXPECT_EQ(contents->lost[0].run, run);
  EXPECT_EQ(contents->lost[0].host, HostId(7));
  EXPECT_EQ(contents->lost[0].status, absl::UnavailableError("w"));
  EXPECT_THAT(contents->uninstalls, ElementsAre(4));
  EXPECT_EQ(contents->consumed_bulk, 200u);
}

TEST(Frame, MalformedOnesAreRefused) {
  namespace wire = ::pathways::v1::dataflow;
  auto parse = [](const wire::Frame& proto, std::string payload) {
    return ParseFrame({proto.SerializeAsString(), Bytes::FromString(std::move(payload))}).status();
  };
  wire::Frame frame;
  EXPECT_TRUE(parse(frame, "").ok());
  EXPECT_FALSE(parse(frame, "x").ok());
  auto* tuples = frame.add_tuples();
  tuples->add_shards(1);
  EXPECT_FALSE(parse(frame, "").ok());
  tuples->add_bytes(2);
  EXPECT_FALSE(parse(frame, "x").ok());
  EXPECT_TRUE(parse(frame, "xy").ok());
  tuples->set_bytes(0, UINT64_MAX);
  EXPECT_FALSE(parse(frame, "xy").ok());
  tuples->set_bytes(0, 0);
  tuples->add_failed()->set_position(1);
  EXPECT_FALSE(parse(frame, "").ok());
  frame.Clear();
  frame.add_reports()->add_firsts(1);
  EXPECT_FALSE(parse(frame, "").ok());
  frame.Clear();
  frame.add_installs()->set_graph(1);
  EXPECT_FALSE(parse(frame, "").ok());  // without nodes
  frame.Clear();
  const auto here = std::make_shared<const Placement>(Placement::OnHost(HostId(0)));
  *frame.add_installs()->mutable_part() = ToProto(*PartOf(**Graph::Create({{"a", "", "", here}}, {}), HostId(0)));
  EXPECT_TRUE(parse(frame, "").ok());
  frame.mutable_installs(0)->mutable_part()->set_host_loss(static_cast<wire::GraphPart::HostLoss>(7));
  EXPECT_FALSE(parse(frame, "").ok());
  EXPECT_FALSE(ParseFrame({"\xff\xff", Bytes()}).ok());
}

}  // namespace
}  // namespace pw::dataflow
