// Tests the stages of program runs on one host. tests/programs tests whole programs.
#include "pathways/worker/execute/program_runs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/program/command_template.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using program::Slot;
using program::SlotKind;
using ::testing::ElementsAre;

// Program 5 adds one to its argument four times.
class ProgramRunsTest : public ::testing::Test {
 protected:
  ProgramRunsTest() {
    w.Compile(1, "args=1 outputs=1 dims=2");
    v1::Command load;
    load.mutable_load_program()->set_program(5);
    load.mutable_load_program()->set_session(1);
    for (uint64_t i = 0; i < 4; ++i) {
      auto* execute = load.mutable_load_program()->add_commands()->mutable_execute();
      execute->set_executable(1);
      execute->add_args(i == 0 ? Slot(SlotKind::kArgument, 0) : Slot(SlotKind::kName, i));
      execute->add_results(i == 3 ? Slot(SlotKind::kResult, 0) : Slot(SlotKind::kName, i + 1));
    }
    w.Do(load);
    w.Put(10, 100, {1, 2});
    w.Settle();
  }
  // Stages of two commands, one, and one; ops 21, 22, 23 of run 20, the second and third granted later.
  v1::Command InStages(uint64_t program = 5) {
    v1::Command command;
    auto& run = *command.mutable_run_program();
    run.set_op(20);
    run.set_program(program);
    run.set_session(1);
    run.set_base(1000);
    run.add_args(100);
    run.add_results(200);
    const std::vector<uint32_t> commands = {2, 1, 1};
    for (uint64_t i = 0; i < commands.size(); ++i) {
      auto* stage = run.add_stages();
      stage->set_op(21 + i);
      stage->set_grant(i == 0 ? 0 : 70 + i);
      stage->set_commands(commands[i]);
    }
    return command;
  }
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
};

TEST_F(ProgramRunsTest, EachStageWaitsForItsGrantAndIsAnsweredByItself) {
  w.Do(InStages());
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(21));
  Grant(71);
  EXPECT_THAT(Done(), ElementsAre(21, 22));
  Grant(72);
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(w.Read(200, 0), ElementsAre(5, 6));
  EXPECT_THAT(w.Read(100, 0), ElementsAre(1, 2));
}

TEST_F(ProgramRunsTest, AnOwnersEndAnswersStagesThatWereNeverGranted) {
  w.Do(InStages());
  w.Settle();
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
}

TEST_F(ProgramRunsTest, ARunThatIsRefusedAnswersItsStages) {
  w.Do(InStages(/*program=*/6));
  w.Settle();
  EXPECT_THAT(Done(), ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(w.connection.done.at(20).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace pw::worker
