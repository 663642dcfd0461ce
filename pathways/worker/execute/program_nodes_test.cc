// Tests the stages of program runs on one host. tests/programs tests whole programs.
#include "pathways/worker/execute/program_nodes.h"

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

// Graph 5 of the controller adds one to its argument four times, in three nodes.
class ProgramNodesTest : public ::testing::Test {
 protected:
  ProgramNodesTest() {
    w.Compile(1, "args=1 outputs=1 dims=2");
    Install(5, /*executable=*/1);
    w.Put(10, 100, {1, 2});
    w.Settle();
  }
  void Install(uint64_t number, uint64_t executable) {
    const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
    std::vector<dataflow::Node> nodes;
    for (const std::vector<uint64_t>& steps : {std::vector<uint64_t>{0, 1}, {2}, {3}}) {
      v1::NodeCommands node;
      for (uint64_t i : steps) {
        auto* execute = node.add_commands()->mutable_execute();
        execute->set_executable(executable);
        execute->add_args(i == 0 ? Slot(SlotKind::kArgument, 0) : Slot(SlotKind::kName, i));
        execute->add_results(i == 3 ? Slot(SlotKind::kResult, 0) : Slot(SlotKind::kName, i + 1));
      }
      nodes.push_back({absl::StrCat("node ", nodes.size()), program::kNodeOperator, node.SerializeAsString(), here});
    }
    const auto graph = dataflow::Graph::Create(std::move(nodes), {}, dataflow::HostLoss::kConcernsNobody);
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::InstallMessage{number, dataflow::PartOf(**graph, HostId(1)), {}});
    Deliver(std::move(frame));
  }
  void Start(uint64_t graph, const v1::ProgramRun& run) {
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::StartMessage{++runs, graph, 1, run.SerializeAsString()});
    Deliver(std::move(frame));
  }
  void Deliver(dataflow::FrameBuilder frame) {
    v1::Command command;
    command.mutable_dataflow()->set_header(frame.SerializeHeader());
    w.Do(command);
  }
  // Stages of two Executes, one, and one; ops 21, 22, 23 of run 20, the second and third granted later.
  v1::ProgramRun InStages() {
    v1::ProgramRun run;
    run.set_op(20);
    run.set_session(1);
    run.set_base(BaseOf(1));
    run.add_args(100);
    run.add_results(200);
    const std::vector<uint32_t> executes = {2, 1, 1};
    for (uint64_t i = 0; i < executes.size(); ++i) {
      auto* stage = run.add_stages();
      stage->set_op(21 + i);
      stage->set_grant(i == 0 ? 0 : 70 + i);
      stage->set_executes(executes[i]);
    }
    return run;
  }
  // The intermediate arrays of a run are those of a request.
  static uint64_t BaseOf(uint64_t request) { return *RequestName{SessionId(1), request, 0, false}.Number(3); }
  void Grant(uint64_t gang) {
    v1::Command command;
    command.mutable_grant()->add_gangs(gang);
    w.Do(command);
    w.Settle();
  }
  std::vector<uint64_t> Done() {
    std::vector<uint64_t> ops;
    for (const auto& [op, status] : w.connection.done) {
      if (op >= 20) ops.push_back(op);
    }
    return ops;
  }

  WorkerHarness w;
  uint64_t runs = 0;
};

TEST_F(ProgramNodesTest, AGraphThatTheHostDoesNotHaveFailsTheRunAndItsStages) {
  w.connection.repeats = true;
  Start(77, InStages());
  w.Settle();
  for (uint64_t op : {20, 21, 22, 23}) {
    ASSERT_TRUE(w.connection.done.contains(op)) << op;
    EXPECT_EQ(w.connection.done.at(op).code(), absl::StatusCode::kFailedPrecondition);
  }
  w.Fetch(900, 200, 0);
  w.Settle();
  EXPECT_THAT(std::string(w.connection.fetched[900].status().message()), ::testing::HasSubstr("does not have graph 77"));
  Start(77, InStages());
  w.Settle();
  EXPECT_EQ(w.worker->arrays(), 2) << "the argument and the result; what comes again does nothing";
}

TEST_F(ProgramNodesTest, EachStageWaitsForItsGrantAndIsAnsweredByItself) {
  Start(5, InStages());
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(21));
  Grant(71);
  EXPECT_THAT(Done(), ElementsAre(21, 22));
  Grant(72);
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(w.Read(200, 0), ElementsAre(5, 6));
  EXPECT_THAT(w.Read(100, 0), ElementsAre(1, 2));
}

TEST_F(ProgramNodesTest, AnOwnersEndAnswersStagesThatWereNeverGranted) {
  Start(5, InStages());
  w.Settle();
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
}

// All in one gang; the second run binds the same templates anew.
TEST_F(ProgramNodesTest, RunsFollowEachOther) {
  v1::ProgramRun run = InStages();
  run.clear_stages();
  Start(5, run);
  run.set_op(30);
  run.set_base(BaseOf(2));
  run.set_args(0, 200);
  run.set_results(0, 201);
  Start(5, run);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(20, 30));
  EXPECT_THAT(w.Read(201, 0), ElementsAre(9, 10));
}

TEST_F(ProgramNodesTest, ARunWithoutItsArgumentsFailsAndAnswersItsStages) {
  v1::ProgramRun run = InStages();
  run.clear_args();
  Start(5, run);
  Grant(71);
  Grant(72);
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(w.connection.poisoned.at(20).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ProgramNodesTest, ARunWhoseNamesHaveNoRoomForItsArraysFails) {
  uint64_t op = 30;
  for (const uint64_t base : {uint64_t{0}, *RequestName{SessionId(1), 1, 0, false}.Number(), BaseOf(1) + RequestName::kStep,
                              BaseOf(1) | uint64_t{1} << 63}) {
    v1::ProgramRun run = InStages();
    run.clear_stages();
    run.set_op(++op);
    run.set_base(base);
    run.set_results(0, 200 + op);
    Start(5, run);
    w.Settle();
    EXPECT_EQ(w.connection.poisoned.at(run.op()).code(), absl::StatusCode::kInvalidArgument) << base;
  }
}

// As a second controller starts it: as another run of the graph, with the same names.
TEST_F(ProgramNodesTest, ARunThatComesAgainIsNotCarriedOutAgain) {
  w.connection.repeats = true;
  v1::ProgramRun run = InStages();
  run.set_op(NamedOp(20));
  for (int i = 0; i < 3; ++i) run.mutable_stages(i)->set_op(NamedOp(30 + 2 * static_cast<uint64_t>(i)));
  Start(5, run);
  w.Settle();
  EXPECT_EQ(w.connection.done.count(NamedOp(30)), 1u);
  Start(5, run);  // it goes on
  w.Settle();
  EXPECT_EQ(w.connection.repeated, 1) << "one stage has ended";
  Grant(71);
  Grant(72);
  EXPECT_EQ(w.connection.done.count(NamedOp(20)), 1u);
  const size_t launches = w.runtime.launches().size();
  w.Release(200);
  Start(5, run);  // it has ended
  Start(5, run);
  w.Settle();
  EXPECT_EQ(w.connection.repeated, 1 + 2 * 4);
  EXPECT_EQ(w.runtime.launches().size(), launches);
  EXPECT_EQ(w.worker->arrays(), 4) << "the argument, and what is between the computations";
  w.TellSettled(40);
  EXPECT_EQ(w.worker->had_names(), 0);
}

TEST_F(ProgramNodesTest, ARunStatesItsSessionOrNamesItByItsOp) {
  v1::ProgramRun run = InStages();
  run.clear_stages();
  run.clear_session();
  run.set_op(*RequestName{SessionId(1), 5, 0, false}.Number());
  Start(5, run);
  w.Settle();
  EXPECT_THAT(w.Read(200, 0), ElementsAre(5, 6));
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_EQ(w.worker->arrays(), 0);
}

}  // namespace
}  // namespace pw::worker
