// Tests a worker whose controller has ended: what it keeps, for how long, and which controller may take it (controller_link.h, Orphans).
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/worker/testing_link.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// A worker that has joined a controller with a grace time, and holds array 5 and a program. The connection cannot be made again, as over
// a Unix socket, unless there is a key.
class OrphanTest : public LinkTest {
 protected:
  void Join(bool exit_with_controller = false, const std::string& key = "") {
    Start(exit_with_controller);
    Take(7, 9, key);
    controller_.Put(5);
    Run();
    EXPECT_FALSE(Compile().from_cache());
  }
  // The controller welcomes the worker. `kept`: the sessions that may come back.
  void Take(uint64_t epoch, uint64_t incarnation, const std::string& key = "", const std::vector<uint64_t>& kept = {}) {
    v1::Command command;
    auto* welcome = command.mutable_welcome();
    welcome->set_key(key);
    welcome->mutable_kept_sessions()->Add(kept.begin(), kept.end());
    welcome->set_host(3);
    welcome->set_incarnation(incarnation);
    welcome->set_heartbeat_seconds(1000);
    welcome->set_epoch(epoch);
    welcome->set_controller_grace_seconds(60);
    welcome->mutable_place()->set_seat(static_cast<uint32_t>(epoch));
    controller_.Send(command);
    Run();
  }
  v1::Compiled Compile(const std::string& program = device::kAdd) {
    v1::Command command;
    auto* c = command.mutable_compile();
    c->set_executable(++executables_);
    c->set_session(1);
    c->set_format("sim");
    c->set_program_bytes(program.size());
    c->set_num_replicas(1);
    c->set_num_partitions(2);
    c->add_local_devices(0);
    c->add_local_devices(1);
    controller_.Send(command, program);
    Run();
    EXPECT_TRUE(controller_.events.back().has_compiled());
    EXPECT_EQ(controller_.events.back().compiled().executable(), executables_);
    EXPECT_EQ(controller_.events.back().compiled().status().code(), 0);
    return controller_.events.back().compiled();
  }
  // The process of the controller ends; another one may take its address later.
  void End() {
    listener_ = nullptr;
    controller_.connection = nullptr;
    Run();
  }
  void Return() {
    Listen();
    Advance(absl::Seconds(1));
  }
  static uint64_t Name(uint64_t request, uint64_t session = 1) { return *RequestName{SessionId(session), request, 0}.Number(); }
  // A request makes an array. Without its bytes, these have to come as a chunk.
  void Make(uint64_t request, bool with_bytes = true, uint64_t session = 1) {
    v1::Command command;
    auto& put = *command.mutable_put();
    put.set_op(Name(request, session));
    put.set_session(session);
    put.set_array(Name(request, session));
    put.set_dtype(11);
    put.set_total_bytes(4);
    put.set_payload_bytes(with_bytes ? 4 : 0);
    put.set_transfer(Name(request + 1000, session));
    for (int32_t shard : {0, 1}) {
      auto& placement = *put.add_placements();
      placement.set_shard(shard);
      placement.set_local_device(shard);
    }
    controller_.Send(command, with_bytes ? "abcd" : "");
    Run();
  }
  // Returns how many completions of the op have come.
  int Completions(uint64_t op) {
    int completions = 0;
    for (const v1::Event& event : controller_.events)
      completions += static_cast<int>(std::count(event.done().ok().begin(), event.done().ok().end(), op));
    return completions;
  }
  // Returns the report of what it has kept, in one part.
  v1::Holdings Holdings() {
    for (auto event = controller_.events.rbegin(); event != controller_.events.rend(); ++event) {
      if (event->has_holdings()) return event->holdings();
    }
    ADD_FAILURE() << "there is no report";
    return {};
  }
  const v1::Hello& hello() { return controller_.events.back().hello(); }

  uint64_t executables_ = 0;
};

TEST_F(OrphanTest, KeepsEverythingUntilTheNextControllerTakesItAndTellsItsPlace) {
  Join();
  End();
  for (int i = 0; i < 50; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(link_->arrays(), 1);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_EQ(hello().epoch(), 7u);
  EXPECT_EQ(hello().former().place().seat(), 7u);
  EXPECT_EQ(hello().former().arrays(), 1);
  EXPECT_EQ(hello().former().programs(), 1);
  EXPECT_EQ(link_->arrays(), 1) << "the next controller has not taken it yet";
  Take(8, 10);
  EXPECT_EQ(link_->arrays(), 0) << "no session can ask for them";
  EXPECT_TRUE(Compile().from_cache()) << "its programs stay loaded";
  EXPECT_TRUE(Compile().from_cache()) << "for all sessions";
  EXPECT_FALSE(Compile(device::kDonate).from_cache());
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
}

TEST_F(OrphanTest, KeepsTheArraysOfSessionsThatMayComeBack) {
  Join();
  Make(3);
  Make(4, true, 2);
  End();
  Return();
  EXPECT_THAT(hello().former().sessions(), IsSupersetOf({1u, 2u}));
  Take(8, 10, "", {1});
  EXPECT_EQ(link_->arrays(), 1) << "session 2 will not come back";
  EXPECT_THAT(Holdings().arrays(), ElementsAre(Name(3)));
  ASSERT_EQ(Holdings().shapes_size(), 1);
  EXPECT_EQ(Holdings().shapes(0).dtype(), 11);
  EXPECT_TRUE(Holdings().last());
  EXPECT_EQ(Completions(Name(3)), 1);
  Make(3);
  EXPECT_EQ(Completions(Name(3)), 2) << "it is recognized, and answered again";
  EXPECT_EQ(link_->arrays(), 1);
}

TEST_F(OrphanTest, ACommandThatHasNotEndedIsDoneWhenItComesAgain) {
  Join();
  Make(3);
  Make(4, false);
  End();
  Return();
  Take(8, 10, "", {1});
  EXPECT_THAT(Holdings().arrays(), ElementsAre(Name(3)));
  EXPECT_EQ(link_->arrays(), 1);
  Make(4);
  EXPECT_EQ(Completions(Name(4)), 1);
  EXPECT_EQ(link_->arrays(), 2);
}

// Its argument is donated: its name was released when the command came.
TEST_F(OrphanTest, AComputationThatHasNotBegunLeavesItsArguments) {
  Join();
  const uint64_t donating = Compile(device::kDonate).executable();
  Make(3);
  v1::Command command;
  auto& execute = *command.mutable_execute();
  execute.set_op(Name(4));
  execute.set_session(1);
  execute.set_executable(donating);
  execute.add_args(Name(3));
  execute.add_results(Name(4));
  execute.set_grant(77);
  controller_.Send(command);
  Run();
  EXPECT_EQ(Completions(Name(4)), 0);
  End();
  Return();
  Take(8, 10, "", {1});
  EXPECT_THAT(Holdings().arrays(), ElementsAre(Name(3)));
  EXPECT_EQ(Holdings().cut_sessions_size(), 0);
}

TEST_F(OrphanTest, IsTakenByTheControllerThatAnswersInPlaceOfItsOwn) {
  Join(false, "the key");
  controller_.connection = nullptr;
  Run();
  ASSERT_TRUE(controller_.events.back().has_resume());
  EXPECT_EQ(controller_.events.back().resume().epoch(), 7u);
  v1::Command command;
  command.mutable_given_up()->set_reason("it keeps no host 3");
  command.mutable_given_up()->set_incarnation(10);
  controller_.SendBeside(command);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
  Advance(absl::Milliseconds(100));
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_TRUE(hello().has_former());
  Take(8, 10, "another key");
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, AHostThatItsOwnControllerHasGivenUpKeepsOnlyItsPrograms) {
  Join(false, "the key");
  controller_.connection = nullptr;
  Run();
  v1::Command command;
  command.mutable_given_up()->set_reason("it was away for too long");
  command.mutable_given_up()->set_incarnation(9);
  controller_.SendBeside(command);
  Run();
  EXPECT_EQ(link_->arrays(), 0);
  Advance(absl::Seconds(1));
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
  EXPECT_EQ(hello().epoch(), 7u);
  Take(7, 9, "another key");
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, AControllerWhoseAddressNobodyHasServedForAWhileFindsItsHostAgain) {
  Join(false, "the key");
  End();
  for (int i = 0; i < 500; ++i) Advance(absl::Milliseconds(100));
  Return();
  ASSERT_TRUE(controller_.events.back().has_resume()) << "perhaps only a tunnel had ended";
  controller_.Resumed(controller_.counted);
  controller_.Put(7);
  Run();
  EXPECT_EQ(link_->arrays(), 2);
}

TEST_F(OrphanTest, AnAddressThatNobodyServesForTheGraceTimeIsGivenUp) {
  Join(false, "the key");
  End();
  for (int i = 0; i < 550; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 1);
  for (int i = 0; i < 100; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 0);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
}

TEST_F(OrphanTest, RefusesAnEarlierControllerAndWaitsForTheNextOne) {
  Join();
  End();
  Return();
  const int connections = controller_.connections;
  Take(6, 10);
  EXPECT_EQ(link_->arrays(), 1);
  EXPECT_FALSE(controller_.closed.ok());
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1) << "it is not obeyed";
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, connections + 1);
  Take(8, 11);
  EXPECT_EQ(link_->arrays(), 0);
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, GivesUpAfterTheGraceTimeAndJoinsAsANewHost) {
  Join();
  End();
  for (int i = 0; i < 62; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(link_->arrays(), 0);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
  EXPECT_EQ(hello().epoch(), 0u) << "it holds nothing of any controller";
  Take(6, 10);
  EXPECT_FALSE(Compile().from_cache());
}

TEST_F(OrphanTest, ProgramsThatNobodyCompilesAgainAreFreedAfterTheGraceTime) {
  Join();
  Compile(device::kDonate);
  End();
  Return();
  Take(8, 10);
  EXPECT_TRUE(Compile().from_cache());
  for (int i = 0; i < 62; ++i) Advance(absl::Seconds(1));
  EXPECT_FALSE(Compile(device::kDonate).from_cache());
}

TEST_F(OrphanTest, AControllerThatTakesItButHasNotFormedYetDoesNotEndTheGraceTime) {
  Join(true);
  End();
  Return();
  for (uint64_t i = 1; i <= 20; ++i) {
    controller_.Ping(i);
    Advance(absl::Seconds(3));
  }
  EXPECT_EQ(link_->arrays(), 0);
  EXPECT_TRUE(finished_.empty()) << "it has a controller";
  Take(8, 10);
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
}

TEST_F(OrphanTest, OneThatExitsWithItsControllerWaitsForTheGraceTime) {
  Join(true);
  End();
  for (int i = 0; i < 55; ++i) Advance(absl::Seconds(1));
  EXPECT_TRUE(finished_.empty());
  for (int i = 0; i < 7; ++i) Advance(absl::Seconds(1));
  EXPECT_THAT(finished_, testing::ElementsAre(absl::OkStatus()));
}

TEST_F(OrphanTest, ARefusalByTheNextControllerEndsTheWorkerWithTheReason) {
  Join();
  End();
  Return();
  v1::Command command;
  command.mutable_shutdown()->set_reason("this cluster runs on cuda");
  controller_.SendBeside(command);
  Run();
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_THAT(std::string(finished_[0].message()), HasSubstr("this cluster runs on cuda"));
}

}  // namespace
}  // namespace pw::worker
