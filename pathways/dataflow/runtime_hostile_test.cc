// Tests a runtime whose peers break the rules.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/testing/runtime_world.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Links of a runtime whose peers are all played by the test.
class FakeLinks : public Links {
 public:
  void Start(Handler* h) override { handler = h; }
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane) override {
    std::string bytes;
    for (const Bytes& piece : payload) bytes += piece.view();
    auto contents = ParseFrame({header, Bytes::FromString(bytes)});
    ASSERT_TRUE(contents.ok());
    sent.emplace_back(to, *std::move(contents));
  }
  void Disconnect(HostId host, const absl::Status& why) override { disconnected.emplace_back(host, why); }

  Handler* handler = nullptr;
  std::vector<std::pair<HostId, FrameContents>> sent;
  std::vector<std::pair<HostId, absl::Status>> disconnected;
};

class Hostile : public testing::Test {
 protected:
  Hostile() {
    operators_.Add("wait", MakeOf([] {
                     auto op = std::make_unique<FunctionOperator>();
                     op->on_inputs_closed = [](Shard&) {};
                     return op;
                   }));
    operators_.Add("pass", MakeOf([] { return std::make_unique<FunctionOperator>(); }));
    runtime_ = std::make_unique<Runtime>(Runtime::Environment{HostId(1), &strand_, &clock_, &timers_, &links_, &operators_},
                                         RuntimeKnobs{});
  }
  template <class... Messages>
  void From(uint32_t host, const Messages&... messages) {
    FrameBuilder frame;
    (frame.Add(messages), ...);
    Deliver(host, frame.SerializeHeader(), frame.TakePayload());
  }
  void Deliver(uint32_t host, std::string header, const std::vector<Bytes>& payload = {}) {
    std::string bytes;
    for (const Bytes& piece : payload) bytes += piece.view();
    links_.handler->OnFrame(HostId(host), {std::move(header), Bytes::FromString(bytes)});
    executor_.RunUntilIdle();
  }
  // A gather from hosts 1 and 2 to host 1, coordinated by host 0.
  void StartRun(uint64_t run) {
    auto graph = Graph::Create({{"a", "wait", "", std::make_shared<const Placement>(Placement::Uniform(HostId(1), 2, 1))},
                                {"b", "wait", "", std::make_shared<const Placement>(Placement::OnHost(HostId(1)))}},
                               {{NodeId(0), NodeId(1), EdgeKind::kGather}});
    From(0, InstallMessage{1, PartOf(**graph, HostId(1)), {}}, StartMessage{run, 1, 1, ""});
  }
  std::vector<absl::Status> EndsSent() const {
    std::vector<absl::Status> ends;
    for (const auto& [to, contents] : links_.sent) {
      for (const EndMessage& end : contents.ends) ends.push_back(end.status);
    }
    return ends;
  }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  Strand strand_{&executor_};
  FakeLinks links_;
  Operators operators_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(Hostile, AMalformedFrameLosesThePeer) {
  Deliver(2, "\xff\xff nonsense");
  ASSERT_THAT(links_.disconnected, SizeIs(1));
  EXPECT_EQ(links_.disconnected[0].first, HostId(2));
}

TEST_F(Hostile, WhatDoesNotFitARunEndsThatRunAlone) {
  StartRun(1);
  StartRun(2);
  EXPECT_EQ(runtime_->live_runs(), 2u);
  From(2, TupleMessage{{HostId(0), 1}, EdgeId(0), 1, 5, TupleOf("for a shard that does not exist")});
  EXPECT_EQ(runtime_->live_runs(), 1u);
  ASSERT_THAT(EndsSent(), SizeIs(1));
  EXPECT_EQ(EndsSent()[0].code(), absl::StatusCode::kInternal);
  EXPECT_THAT(EndsSent()[0].message(), HasSubstr("host 2"));
  // Later messages for the run are dropped.
  From(2, TupleMessage{{HostId(0), 1}, EdgeId(0), 2, 0, TupleOf("late")});
  From(2, TupleMessage{{HostId(0), 2}, EdgeId(9), 1, 0, TupleOf("of an edge that does not exist")});
  EXPECT_EQ(runtime_->live_runs(), 0u);
  EXPECT_THAT(links_.disconnected, IsEmpty());
}

// On a single edge the number of a tuple names its shards, and no host may report.
TEST_F(Hostile, WhatDoesNotFitASingleEdgeEndsItsRun) {
  auto graph = Graph::Create({{"a", "wait", "", std::make_shared<const Placement>(Placement::Uniform(HostId(1), 2, 1))},
                              {"b", "wait", "", std::make_shared<const Placement>(Placement::OnHost(HostId(1)))}},
                             {{NodeId(0), NodeId(1), EdgeKind::kGather, false, true}}, HostLoss::kFailsShards);
  From(0, InstallMessage{1, PartOf(**graph, HostId(1)), {}});
  size_t ends = 0;
  const auto start = [&](uint64_t run) { From(0, StartMessage{run, 1, 1, ""}); };
  const auto expect_end = [&](const std::string& why) {
    EXPECT_EQ(runtime_->live_runs(), 0u);
    ASSERT_THAT(EndsSent(), SizeIs(++ends));
    EXPECT_THAT(std::string(EndsSent().back().message()), HasSubstr(why));
  };
  start(1);
  From(2, TupleMessage{{HostId(0), 1}, EdgeId(0), 1, 0, TupleOf("in the name of host 1")});
  expect_end("host 2 sent");
  start(2);
  From(2, ReportMessage{{HostId(0), 2}, EdgeId(0), {}});
  expect_end("a report");
  start(3);
  From(2, TupleMessage{{HostId(0), 3}, EdgeId(0), 2, 0, TupleOf("its own")});
  From(2, TupleMessage{{HostId(0), 3}, EdgeId(0), 2, 0, TupleOf("and again")});
  EXPECT_EQ(runtime_->live_runs(), 1u);
  EXPECT_THAT(EndsSent(), SizeIs(ends));
}

TEST_F(Hostile, OnlyTheCoordinatorTakesAHostOutOfARun) {
  const auto lost_sent = [&] {
    size_t count = 0;
    for (const auto& [to, contents] : links_.sent) count += contents.lost.size();
    return count;
  };
  StartRun(1);  // of a graph that does not outlive its hosts
  From(0, LostMessage{{HostId(0), 1}, HostId(2), absl::UnavailableError("says host 0")});
  EXPECT_EQ(runtime_->live_runs(), 1u);
  auto graph = Graph::Create({{"a", "wait", "", std::make_shared<const Placement>(Placement::OnHost(HostId(2)))},
                              {"b", "pass", "", std::make_shared<const Placement>(Placement::OnHost(HostId(1)))}},
                             {{NodeId(0), NodeId(1)}}, HostLoss::kFailsShards);
  From(0, InstallMessage{2, PartOf(**graph, HostId(1)), {}}, StartMessage{2, 2, 1, ""});
  From(2, LostMessage{{HostId(0), 2}, HostId(2), absl::UnavailableError("says host 2")});
  for (uint32_t host : {0, 1, 7}) From(0, LostMessage{{HostId(0), 2}, HostId(host), absl::UnavailableError("who?")});
  From(2, BrokenMessage{HostId(0), absl::UnavailableError("not a coordinator of ours")});
  EXPECT_EQ(runtime_->live_runs(), 2u);
  From(0, LostMessage{{HostId(0), 2}, HostId(2), absl::UnavailableError("says host 0")});
  EXPECT_EQ(runtime_->live_runs(), 1u) << "b has ended";
  From(2, TupleMessage{{HostId(0), 2}, EdgeId(0), 1, 0, TupleOf("late")});
  EXPECT_EQ(lost_sent(), 0u);
  EXPECT_THAT(EndsSent(), IsEmpty());
}

TEST_F(Hostile, OnlyTheCoordinatorEndsARun) {
  StartRun(1);
  From(2, EndMessage{{HostId(0), 1}, absl::CancelledError("says host 2")});
  EXPECT_EQ(runtime_->live_runs(), 1u);
  From(0, EndMessage{{HostId(0), 1}, absl::CancelledError("")});
  EXPECT_EQ(runtime_->live_runs(), 0u);
  EXPECT_THAT(EndsSent(), IsEmpty());
}

TEST_F(Hostile, AStartWithoutItsGraphIsRefused) {
  From(0, StartMessage{1, 77, 1, ""});
  ASSERT_THAT(EndsSent(), SizeIs(1));
  EXPECT_THAT(EndsSent()[0].message(), HasSubstr("does not have graph 77"));
}

TEST_F(Hostile, AGraphThatIsTooLargeForTheHostIsRefused) {
  auto graph = Graph::Create({{"a", "wait", "", std::make_shared<const Placement>(Placement::OnHost(HostId(1), 1 << 21))}}, {});
  From(0, InstallMessage{1, PartOf(**graph, HostId(1)), {}}, StartMessage{1, 1, 1, ""});
  EXPECT_EQ(runtime_->live_runs(), 0u);
  EXPECT_THAT(EndsSent(), SizeIs(1));
}

// A host that installs a result node on another host gets at none of that host's callbacks.
TEST_F(Hostile, AResultNodeElsewhereThanAtTheCoordinatorIsRefused) {
  auto graph = Graph::Create({{"r", kResultOp, "", std::make_shared<const Placement>(Placement::OnHost(HostId(1)))}}, {});
  From(0, InstallMessage{1, PartOf(**graph, HostId(1)), {}}, StartMessage{1, 1, 1, ""});
  ASSERT_THAT(EndsSent(), SizeIs(1));
  EXPECT_EQ(EndsSent()[0].code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Hostile, MessagesForRunsThatNeverStartAreBounded) {
  for (uint64_t run = 1; run <= 3000; ++run) {
    From(2, TupleMessage{{HostId(0), run}, EdgeId(0), 1, 0, TupleOf(std::string(50000, 'x'))});
  }
  // 3000 x 50 kB is more than twice max_early_bytes: some runs fail when they start, and the others run.
  StartRun(3000);
  EXPECT_EQ(EndsSent().size(), 1u);
  From(0, StartMessage{3001, 1, 3001, ""});
  EXPECT_EQ(runtime_->live_runs(), 1u);
}

// A frame that does not parse costs its sender the connection. A frame that parses breaks no connection. Other runs go on.
TEST_F(Hostile, RandomBytesLoseTheirSenderAndNobodyElse) {
  Random random(1);
  StartRun(1);
  FrameBuilder good;
  good.Add(TupleMessage{{HostId(0), 1}, EdgeId(0), 1, 0, TupleOf("x")});
  ReportMessage report{{HostId(0), 1}, EdgeId(0), {}};
  report.report.counts.Append({0, 1, 1});
  good.Add(report);
  const std::string header = good.SerializeHeader();
  int unreadable = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = header;
    for (uint32_t n = random.Below(4); n > 0; --n)
      bytes[random.Below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.Below(256));
    const uint32_t peer = 2 + random.Below(2);
    const bool reads = ParseFrame({bytes, Bytes::FromString("x")}).ok();
    const size_t disconnected = links_.disconnected.size();
    Deliver(peer, bytes, {Bytes::FromString("x")});
    ASSERT_THAT(links_.disconnected, SizeIs(disconnected + (reads ? 0 : 1))) << "frame " << i;
    if (!reads) {
      ASSERT_EQ(links_.disconnected.back().first, HostId(peer)) << "frame " << i;
      ++unreadable;
    }
    if (runtime_->live_runs() == 0) StartRun(static_cast<uint64_t>(i) + 2);
  }
  EXPECT_GT(unreadable, 300);
  EXPECT_LT(unreadable, 2700);

  const size_t live = runtime_->live_runs();
  StartRun(10000);
  EXPECT_EQ(runtime_->live_runs(), live + 1);
  From(0, EndMessage{{HostId(0), 10000}, absl::OkStatus()});
  EXPECT_EQ(runtime_->live_runs(), live);
}

}  // namespace
}  // namespace pw::dataflow
