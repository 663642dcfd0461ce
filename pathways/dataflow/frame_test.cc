#include "pathways/dataflow/frame.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/graph_wire.h"
#include "pathways/dataflow/testing/random_graphs.h"

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
  EXPECT_FALSE(parse(frame, "").ok());  // a graph without nodes
  frame.Clear();
  *frame.add_installs()->mutable_definition() =
      ToProto(**Graph::Create({{"a", "", "", std::make_shared<const Placement>(Placement::OnHost(HostId(0)))}}, {}));
  EXPECT_TRUE(parse(frame, "").ok());
  frame.mutable_installs(0)->mutable_definition()->set_host_loss(static_cast<wire::Graph::HostLoss>(7));
  EXPECT_FALSE(parse(frame, "").ok());
  EXPECT_FALSE(ParseFrame({"\xff\xff", Bytes()}).ok());
}

TEST(GraphWire, GraphsComeBackAsTheyWere) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto graph = RandomGraph(random, 5, 8, 12, "op");
    const std::string bytes = ToProto(*graph).SerializeAsString();
    const auto again = ParseGraph(bytes);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(ToProto(**again).SerializeAsString(), bytes);
    ASSERT_EQ((*again)->hosts(), graph->hosts());
    ASSERT_EQ((*again)->host_loss(), graph->host_loss());
    for (size_t e = 0; e < graph->edges().size(); ++e) ASSERT_EQ((*again)->edges()[e].single, graph->edges()[e].single);
    ASSERT_EQ((*again)->nodes().size(), graph->nodes().size());
    for (size_t n = 0; n < graph->nodes().size(); ++n) ASSERT_EQ(*(*again)->nodes()[n].placement, *graph->nodes()[n].placement);
  }
}

TEST(GraphWire, AUniformGraphIsAsSmallFor2048ShardsAsFor8) {
  auto bytes = [](uint32_t hosts) {
    const auto placement = std::make_shared<const Placement>(Placement::Uniform(HostId(0), hosts, 8));
    return ToProto(**Graph::Create({{"Arg", "", "", placement}, {"A", "", "", placement}}, {{NodeId(0), NodeId(1)}}))
        .ByteSizeLong();
  };
  EXPECT_LE(bytes(256), bytes(1) + 1);
}

TEST(GraphWire, AnyBytesGiveAGraphOrAStatus) {
  Random random(1);
  const std::string good = ToProto(*RandomGraph(random, 5, 8, 12, "op")).SerializeAsString();
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = good;
    for (uint32_t n = 1 + random.Below(4); n > 0; --n)
      bytes[random.Below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.Below(256));
    if (auto graph = ParseGraph(bytes); graph.ok()) {
      EXPECT_GE((*graph)->nodes().size(), 1u);
    }
  }
  EXPECT_FALSE(ParseGraph("").ok());
  EXPECT_FALSE(ParseGraph("nonsense").ok());
}

}  // namespace
}  // namespace pw::dataflow
