// Tests a loop on one host, which decides alone. tests/e2e/programs/test_loops.py has loops over several hosts.
#include "pathways/worker/execute/loops.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/dataflow/frame.h"
#include "pathways/program/command_template.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using program::Slot;
using program::SlotKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A turn, graph 5 of the controller, adds one to its argument, array 100 at first, as long as the first element is below a limit.
class LoopsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kLoop = 30, kInitial = 100, kResult = 200;

  // `turn`: the recipe of a turn, if it is another one.
  void Load(const std::string& recipe, const std::string& turn = "") {
    w.Compile(1, recipe, {0});
    w.Compile(2, turn.empty() ? recipe : turn, {0});
    const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
    v1::NodeCommands node;
    auto* alias = node.add_commands()->mutable_alias()->add_items();
    alias->set_array(Slot(SlotKind::kName, 0));
    alias->set_source_array(Slot(SlotKind::kArgument, 0));
    node.add_commands()->mutable_release()->add_arrays(Slot(SlotKind::kArgument, 0));
    auto* execute = node.add_commands()->mutable_execute();
    execute->set_executable(2);
    execute->add_args(Slot(SlotKind::kName, 0));
    execute->add_results(Slot(SlotKind::kResult, 0));
    execute->add_results(Slot(SlotKind::kResult, 1));
    node.add_commands()->mutable_release()->add_arrays(Slot(SlotKind::kName, 0));
    const auto graph = dataflow::Graph::Create({{"node 2 of loop", program::kNodeOperator, node.SerializeAsString(), here}}, {},
                                               dataflow::HostLoss::kConcernsNobody);
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::InstallMessage{5, dataflow::PartOf(**graph, HostId(1)), {}});
    v1::Command command;
    command.mutable_dataflow()->set_header(frame.SerializeHeader());
    w.Do(command);
    w.Put(10, 99, {0, 10}, {0});
    w.Execute(11, 1, {99}, {kInitial, 101});  // {1, 11}, and the first predicate
    w.Settle();
  }
  v1::BeginLoop Loop() const {
    v1::BeginLoop loop;
    loop.set_op(kLoop);
    loop.set_session(1);
    loop.set_graph(5);
    loop.add_hosts(1);
    loop.set_leader(1);
    loop.set_carries(1);
    auto* carried = loop.add_carried();
    carried->set_initial(kInitial);
    carried->set_result(kResult);
    loop.add_arguments()->set_carried(0);
    loop.add_results(0);
    loop.add_results(1);
    loop.set_names(1);
    loop.set_base(NamesOf(1, 3));
    loop.set_predicate(101);
    loop.set_location("node 3 of f");
    return loop;
  }
  void Begin(const v1::BeginLoop& loop) {
    v1::Command command;
    command.mutable_expect()->set_session(1);
    command.mutable_expect()->set_array(loop.carried(0).result());
    command.mutable_expect()->add_placements();
    w.Do(command);
    command.Clear();
    *command.mutable_begin_loop() = loop;
    w.Do(command);
    w.Settle();
  }
  // Gives the loop a lease, whose op and gang are this number.
  void Lease(uint64_t number, uint64_t turns, bool granted = true) {
    w.Do(LeaseOf(number, turns, granted));
    w.Settle();
  }
  static v1::Command LeaseOf(uint64_t number, uint64_t turns, bool granted) {
    v1::Command command;
    auto* lease = command.mutable_loop_lease();
    lease->set_op(number);
    lease->set_session(1);
    lease->set_loop(kLoop);
    lease->set_turns(turns);
    lease->set_base(NamesOf(number, 3 * turns));
    lease->set_gang(number);
    lease->set_granted(granted);
    lease->add_devices(0);
    return command;
  }
  static uint64_t NamesOf(uint64_t request, uint64_t count) {
    return *RequestName{SessionId(1), request, 0, false}.Number(count);
  }
  // Returns the ops from 30 on that are answered.
  std::vector<uint64_t> Done() {
    std::vector<uint64_t> ops;
    for (const auto& [op, status] : w.connection.done) {
      if (op >= kLoop) ops.push_back(op);
    }
    return ops;
  }
  // Returns the error of an array.
  std::string ErrorOf(uint64_t array) {
    const uint64_t fetch = 800000 + array;
    w.Fetch(fetch, array, 0);
    w.Settle();
    return w.connection.fetched[fetch].status().message();
  }

  // The same loop of hosts 1 and 2, where host 2 decides.
  v1::BeginLoop LoopOfTwo() const {
    v1::BeginLoop loop = Loop();
    loop.add_hosts(2);
    loop.set_leader(2);
    return loop;
  }
  void Hear(uint32_t from, uint64_t turns, bool ended = false, const absl::Status& status = absl::OkStatus()) {
    v1::LoopTurn turn;
    turn.set_loop(kLoop);
    turn.set_turns(turns);
    turn.set_ended(ended);
    if (!status.ok()) *turn.mutable_status() = ToProto(status);
    w.strand.Post([this, from, turn] { w.worker->peers().frames().OnTurn(HostId(from), turn); });
    w.Settle();
  }
  // The link to host 2: keeps the decisions that this host sends there.
  struct LinkTo2 : net::FrameSink {
    using FrameSink::Send;
    void Send(std::string header, std::vector<Bytes>, net::Lane) override {
      v1::PeerMessage message;
      EXPECT_TRUE(message.ParseFromString(header) && message.has_loop_turn());
      sent.push_back(message.loop_turn());
    }
    bool CanSendBulk() const override { return true; }
    std::vector<v1::LoopTurn> sent;
  };
  void Connect() {
    w.strand.Post([this] { w.worker->peers().frames().Connected(HostId(2), &link); });
    w.Settle();
  }
  size_t Launches() const { return w.runtime.launches().size(); }

  LinkTo2 link;
  WorkerHarness w;
};

TEST_F(LoopsTest, RunsTurnsAsLongAsThePredicateIsTrue) {
  Load("args=1 outputs=1 dims=2 below=5");
  Begin(Loop());
  Lease(31, 100);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(5, 15));
  EXPECT_THAT(w.Read(kInitial, 0), ElementsAre(1, 11));
}

TEST_F(LoopsTest, WithoutATurnTheResultIsTheInitialValue) {
  Load("args=1 outputs=1 dims=2 below=1");
  Begin(Loop());
  EXPECT_THAT(Done(), ElementsAre(kLoop));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(1, 11));
  Lease(31, 100);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31)) << "a lease that comes too late is answered";
  EXPECT_THAT(w.Read(kInitial, 0), ElementsAre(1, 11));
}

TEST_F(LoopsTest, ATurnWaitsForALeaseWithRoomAndItsGrant) {
  Load("args=1 outputs=1 dims=2 below=6");
  Begin(Loop());
  EXPECT_THAT(Done(), ElementsAre());
  Lease(31, 2);
  EXPECT_THAT(Done(), ElementsAre(31));
  Lease(32, 2, /*granted=*/false);
  EXPECT_THAT(Done(), ElementsAre(31));
  v1::Command grant;
  grant.mutable_grant()->add_gangs(32);
  w.Do(grant);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(31, 32));
  Lease(33, 100);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31, 32, 33));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(6, 16));
}

TEST_F(LoopsTest, OtherComputationsWaitForTheEndOfALease) {
  Load("args=1 outputs=1 dims=2 below=1000000");
  const size_t before = w.runtime.launches().size();
  w.Compile(3, "args=1 outputs=1 dims=2", {0});
  Begin(Loop());
  v1::Command lease = LeaseOf(31, 3, true);
  w.Do(lease);
  w.Execute(29, 3, {kInitial}, {300});
  EXPECT_EQ(w.runtime.launches().size(), before + 1) << "only the first turn: it has not ended";
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(31));
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12));
}

TEST_F(LoopsTest, MemoryDoesNotGrowWithTheTurns) {
  Load("args=1 outputs=1 dims=2 below=1000000");
  Begin(Loop());
  Lease(31, 1);
  const int64_t arrays = w.worker->arrays();
  const int buffers = w.runtime.live_buffers();
  Lease(32, 500);
  EXPECT_EQ(w.worker->arrays(), arrays);
  EXPECT_EQ(w.runtime.live_buffers(), buffers);
}

TEST_F(LoopsTest, AFailedTurnEndsTheLoopAndIsNamed) {
  Load("args=1 outputs=1 dims=2 below=100", "args=1 outputs=1 dims=2 below=100 fail=out_of_luck");
  Begin(Loop());
  Lease(31, 10);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("out of luck [at node 2 of loop, turn 1]"));
}

TEST_F(LoopsTest, ARefusedLeaseEndsTheLoop) {
  Load("args=1 outputs=1 dims=2 below=100");
  Begin(Loop());
  Lease(31, 2);
  v1::Command command;
  command.mutable_loop_lease()->set_loop(kLoop);
  *command.mutable_loop_lease()->mutable_refused() = ToProto(absl::DataLossError("a host was lost"));
  w.Do(command);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("a host was lost [at node 3 of f"));
}

TEST_F(LoopsTest, ItsSessionsEndEndsALoopWithoutAnEnd) {
  Load("args=1 outputs=1 dims=2 below=1000000");
  Begin(Loop());
  Lease(31, 2);
  Lease(32, 100, /*granted=*/false);
  w.Compile(3, "args=0 outputs=1 dims=2", {0}, /*session=*/2);
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31, 32));
  w.Execute(29, 3, {}, {300}, /*session=*/2);
  EXPECT_THAT(w.Read(300, 0), ElementsAre(1, 1)) << "the device is free";
}

TEST_F(LoopsTest, AHostThatDoesNotDecideRunsTheTurnsThatItHearsOf) {
  Load("args=1 outputs=1 dims=2 below=3");
  Begin(LoopOfTwo());
  Lease(31, 10);
  const size_t before = Launches();
  Hear(2, 1);
  EXPECT_EQ(Launches(), before + 1);
  Hear(2, 4);
  EXPECT_EQ(Launches(), before + 4) << "whatever it could read itself";
  Hear(2, 4, /*ended=*/true);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(5, 15));
}

TEST_F(LoopsTest, WhatItHearsBeforeItsCommandCounts) {
  Load("args=1 outputs=1 dims=2 below=3");
  Hear(2, 1);
  Hear(2, 3, /*ended=*/true);
  Hear(2, 2);  // an older message
  Begin(LoopOfTwo());
  Lease(31, 10);
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(4, 14));
}

TEST_F(LoopsTest, OnlyTheLeaderDecides) {
  Load("args=1 outputs=1 dims=2 below=3");
  Begin(LoopOfTwo());
  Lease(31, 10);
  const size_t before = Launches();
  Hear(3, 7);
  Hear(3, 7, /*ended=*/true);
  EXPECT_EQ(Launches(), before);
  EXPECT_THAT(Done(), ElementsAre());
}

TEST_F(LoopsTest, TheLeadersErrorIsTheLoops) {
  Load("args=1 outputs=1 dims=2 below=3");
  Begin(LoopOfTwo());
  Lease(31, 10);
  Hear(2, 2, /*ended=*/true, absl::InternalError("failed over there [at node 7, turn 2]"));
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_EQ(ErrorOf(kResult), "failed over there [at node 7, turn 2]");
}

TEST_F(LoopsTest, TheLeadersLossEndsTheLoop) {
  Load("args=1 outputs=1 dims=2 below=3");
  Begin(LoopOfTwo());
  Lease(31, 10);
  Hear(2, 2);
  w.strand.Post([&] { w.worker->peers().frames().TellLeft(HostId(2), absl::UnavailableError("host 2 has left the cluster")); });
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("host 2 has left the cluster [at node 3 of f, turn 2]"));
}

TEST_F(LoopsTest, AnotherHostsFailureMakesTheLeaderEndTheLoop) {
  Load("args=1 outputs=1 dims=2 below=1000000");
  v1::BeginLoop loop = LoopOfTwo();
  loop.set_leader(1);
  Connect();
  Begin(loop);
  Lease(31, 2);
  Hear(2, 0, /*ended=*/false, absl::InternalError("failed over there [at node 7, turn 2]"));
  Lease(32, 100);  // the third turn was decided before
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31, 32));
  EXPECT_EQ(ErrorOf(kResult), "failed over there [at node 7, turn 2]");
  ASSERT_FALSE(link.sent.empty());
  EXPECT_TRUE(link.sent.back().ended());
  EXPECT_EQ(link.sent.back().turns(), 3u);
  EXPECT_EQ(link.sent.back().status().message(), "failed over there [at node 7, turn 2]");
}

TEST_F(LoopsTest, TheLeaderTellsTheOthersOfEachTurn) {
  Load("args=1 outputs=1 dims=2 below=4");
  v1::BeginLoop loop = LoopOfTwo();
  loop.set_leader(1);
  Connect();
  Begin(loop);
  Lease(31, 10);
  ASSERT_EQ(link.sent.size(), 4u);
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    EXPECT_EQ(link.sent[turn - 1].turns(), turn);
    EXPECT_FALSE(link.sent[turn - 1].ended());
  }
  EXPECT_EQ(link.sent[3].turns(), 3u);
  EXPECT_TRUE(link.sent[3].ended());
  EXPECT_FALSE(link.sent[3].has_status());
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(4, 14));
}

TEST_F(LoopsTest, AHostThatDoesNotDecideTellsTheLeaderOfItsFailure) {
  Load("args=1 outputs=1 dims=2 below=100", "args=1 outputs=1 dims=2 below=100 fail=out_of_luck");
  Connect();
  Begin(LoopOfTwo());
  Lease(31, 10);
  Hear(2, 1);
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_THAT(link.sent[0].status().message(), HasSubstr("out of luck [at node 2 of loop, turn 1]"));
  EXPECT_THAT(Done(), ElementsAre()) << "the leader ends it";
}

TEST_F(LoopsTest, CommandsThatMakeNoSenseFailTheLoop) {
  Load("args=1 outputs=1 dims=2 below=100");
  uint64_t op = 40;
  const auto fails = [&](const std::string& what, const std::function<void(v1::BeginLoop*)>& change, const std::string& why) {
    v1::BeginLoop loop = Loop();
    loop.set_op(op += 2);
    loop.mutable_carried(0)->set_result(kResult + op);
    change(&loop);
    Begin(loop);
    EXPECT_THAT(Done(), ElementsAre(op)) << what;
    w.connection.done.clear();
    EXPECT_THAT(ErrorOf(kResult + op), HasSubstr(why)) << what;
  };
  fails("no graph", [](v1::BeginLoop* loop) { loop->set_graph(6); }, "which this host does not have");
  fails("no such carried array", [](v1::BeginLoop* loop) { loop->mutable_arguments(0)->set_carried(7); }, "not on this host");
  fails("no such result", [](v1::BeginLoop* loop) { loop->set_results(0, 7); }, "result 7 of a turn is not on this host");
  fails("twice", [](v1::BeginLoop* loop) { *loop->add_carried() = loop->carried(0); }, "no carried array 0, or twice");
  fails("too many", [](v1::BeginLoop* loop) { loop->set_carries(1u << 30); }, "too many arrays");
  fails("no names", [](v1::BeginLoop* loop) { loop->set_base(0); }, "no names for its inputs");
}

TEST_F(LoopsTest, LeasesThatMakeNoSenseFailTheLoop) {
  Load("args=1 outputs=1 dims=2 below=100");
  Begin(Loop());
  v1::Command command;
  auto* lease = command.mutable_loop_lease();
  lease->set_op(31);
  lease->set_loop(kLoop);
  lease->set_turns(1);
  lease->set_gang(31);
  lease->add_devices(9);
  w.Do(command);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(kLoop, 31));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("there is no local device 9"));
}

}  // namespace
}  // namespace pw::worker
