// Tests programs with nodes that wait for values, dispatched in both ways.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/waiting_cluster.h"

namespace pw::programs {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WaitingPrograms : public ::testing::TestWithParam<bool> {
 protected:
  bool sequential() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dispatch, WaitingPrograms, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sequential" : "Parallel"; });

// Result 0: x + 1 on host 0, ten times that by a function, + 1 on host 1. Result 1: x + 1 on host 0.
Waiting Between(bool donated = false) {
  Waiting b("between");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t x = b.Arg(here, donated);
  const uint32_t y = b.Compute(b.Executable(kAdd, {0}), {x});
  const uint32_t z = b.HostCall({y}, {here});
  b.Result(b.Compute(b.Executable(kAdd, {2}), {b.Transfer(z, there)}));
  b.Result(b.Compute(b.Executable(kAdd, {0}), {x}));
  return b;
}

TEST_P(WaitingPrograms, AFunctionRunsBetweenComputationsAndTheRestDoesNotWait) {
  World world(2, sequential(), Between());
  world.Begin({1}, {2, 3});
  ASSERT_EQ(world.functions->calls.size(), 1u);
  EXPECT_EQ(world.functions->calls[0].call.callback, 7u);
  if (!sequential()) {
    EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5)) << "while the function runs";
  }
  world.functions->Answer();
  EXPECT_THAT(*world.Floats(2), ElementsAre(21, 31, 41, 51));
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  world.Drop({1, 2, 3});
  EXPECT_EQ(world.AllArrays(), 0);
  EXPECT_TRUE(world.session->DestructExecutable(world.program).ok());
  world.Run();
  EXPECT_EQ(world.impl().num_executables(), 0u);
}

// AwaitEffects serves `jax.effects_barrier`.
TEST_P(WaitingPrograms, WhoAwaitsEffectsIsAnsweredAfterAllRunsBeforeAndToldFailuresOnce) {
  Waiting between = Between();
  between.proto.set_effects(true);
  World world(2, sequential(), between);
  std::vector<std::string> answers;
  auto ask = [&] {
    world.session->AwaitEffects([&answers](const absl::Status& status) { answers.push_back(std::string(status.message())); });
    world.Run();
  };
  ask();
  ASSERT_EQ(answers.size(), 1u) << "nothing has run";
  for (Handle result : {10, 20, 30}) world.Begin({1}, {result, result + 1});
  ask();
  ASSERT_EQ(world.functions->calls.size(), 3u);
  auto end = [&](size_t call, const char* error) {
    std::move(world.functions->calls[call].done)(absl::InternalError(error));
    world.Run();
  };
  end(2, "the third raised");
  end(0, "the first raised");
  EXPECT_THAT(*world.Floats(31), ElementsAre(2, 3, 4, 5)) << "what does not depend on it";
  EXPECT_EQ(answers.size(), 1u) << "the second has not ended";
  world.functions->Answer(1);
  world.Run();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[1], HasSubstr("the first raised"));
  ask();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[2], "") << "told once";
  world.Begin({1}, {40, 41});
  ask();
  EXPECT_EQ(answers.size(), 3u);
  world.session = nullptr;
  world.Run();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[3], "the session has ended");
}

TEST_P(WaitingPrograms, ResultsOfAProgramWithEffectsAreToldAfterThem) {
  Waiting between = Between();
  between.proto.set_effects(true);
  World world(2, sequential(), between);
  std::vector<std::string> told;
  auto ask = [&](Handle array, Handle buffer) {
    auto note = [&told](std::string what) {
      return
          [&told, what = std::move(what)](const absl::Status& status) { told.push_back(what + std::string(status.message())); };
    };
    world.session->WhenReady({array}, note("ready"));
    world.session->CopyToHostBuffer(array, buffer, std::nullopt, note("bytes"));
    world.Run();
  };
  world.Begin({1}, {2, 3});
  ASSERT_TRUE(world.session->FullyReplicatedShard(4, 3, controller::CopySemantics::kReuseInput).ok());
  ask(3, 100);
  ask(4, 101);
  EXPECT_THAT(told, ElementsAre());
  EXPECT_THAT(*world.Floats(1), ElementsAre(1, 2, 3, 4)) << "what others have made is told";
  world.functions->Answer();
  world.Run();
  EXPECT_THAT(told, ::testing::UnorderedElementsAre("ready", "bytes", "ready", "bytes"));
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  told.clear();
  world.Begin({1}, {12, 13});
  ask(13, 102);
  std::move(world.functions->calls[0].done)(absl::InternalError("it raised"));
  world.Run();
  EXPECT_THAT(told, ::testing::UnorderedElementsAre("ready", "bytes")) << "what does not depend on the function";
  told.clear();
  world.Begin({1}, {22, 23});
  ask(23, 103);
  world.session = nullptr;
  world.Run();
  EXPECT_THAT(told, ::testing::UnorderedElementsAre("readythe session has ended", "bytesthe session has ended"));
}

TEST_P(WaitingPrograms, WhoAwaitsEffectsHearsOfALostHostAndOfRunsThatNeverBegan) {
  Waiting between = Between();
  between.proto.set_effects(true);
  World world(2, sequential(), between);
  std::vector<absl::Status> answers;
  auto ask = [&] {
    world.session->AwaitEffects([&answers](const absl::Status& status) { answers.push_back(status); });
    world.Run();
  };
  world.Begin({1}, {2, 3});
  ask();
  world.real[1]->Stop();
  world.Run();
  world.functions->Answer();
  world.Run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(world.Execute(world.program, {1}, {4, 5}).ok() && world.Floats(4).ok());
  ask();
  EXPECT_EQ(answers.size(), 2u);
}

TEST_P(WaitingPrograms, TheProgramMayGoWhileItsRunsWait) {
  World world(2, sequential(), Between(true));
  ASSERT_TRUE(world.Execute(world.program, {1}, {2, 3}).ok());
  EXPECT_TRUE(*world.session->IsDeleted(1));
  EXPECT_TRUE(world.session->DestructExecutable(world.program).ok());
  world.Run();
  world.functions->Answer();
  EXPECT_THAT(*world.Floats(2), ElementsAre(21, 31, 41, 51));
  world.Drop({1, 2, 3});
  EXPECT_EQ(world.AllArrays(), 0);
  EXPECT_EQ(world.impl().num_executables(), 0u);
}

TEST_P(WaitingPrograms, AFailingFunctionFailsWhatDependsOnIt) {
  World world(2, sequential(), Between());
  world.Begin({1}, {2, 3});
  std::move(world.functions->calls[0].done)(absl::InternalError("it raised"));
  const absl::Status status = world.Floats(2).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("it raised [at node 2 of between: test.py:3]"));
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  world.Begin({1}, {4, 5});
  std::move(world.functions->calls[1].done)(std::vector<Bytes>{Bytes::Copy("abc")});
  EXPECT_THAT(std::string(world.Floats(4).status().message()), HasSubstr("3 bytes for f32[4] over 1 device, which has 16"));
  world.Drop({1, 2, 3, 4, 5});
  EXPECT_EQ(world.AllArrays(), 0);
}

// The first branch runs one computation on host 0, the second two on host 1. Both return their result on host 0.
Waiting Choosing(bool donated = false) {
  Waiting b("choosing");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t add = b.Executable(kAdd, {0}), away = b.Executable(kAdd, {2});
  b.Branch(here, {add}, here, here, false);
  b.Branch(here, {away, away}, there, here, true);
  const uint32_t index = b.Index(here), x = b.Arg(here, donated);
  const uint32_t chosen = b.Select(index, {x}, {here}, {0, 1});
  b.Result(b.Compute(add, {chosen}));
  b.Result(chosen);
  return b;
}

TEST_P(WaitingPrograms, OnlyTheBranchThatTheIndexNamesRuns) {
  World world(2, sequential(), Choosing());
  const auto launches = [&] { return world.real[1]->runtime().launches().size(); };
  Handle next = 10;
  for (int32_t index : {0, 1, -3, 7}) {
    world.PutIndex(next, index, 0);
    const size_t before = launches();
    ASSERT_TRUE(world.Execute(world.program, {next, 1}, {next + 1, next + 2}).ok());
    const bool second = index > 0;
    EXPECT_EQ(*world.Floats(next + 2), second ? std::vector<float>({3, 4, 5, 6}) : std::vector<float>({2, 3, 4, 5}));
    EXPECT_EQ(*world.Floats(next + 1), second ? std::vector<float>({4, 5, 6, 7}) : std::vector<float>({3, 4, 5, 6}));
    EXPECT_EQ(launches() - before, second ? 2u : 0u);
    world.Drop({next, next + 1, next + 2});
    EXPECT_EQ(world.AllArrays(), 1) << "the argument";
    next += 3;
  }
}

// x + 1 on device 0, whose first element is the index; its computation waits for the test. The branches are on hosts 1 and 2, and the second has a
// choice too, by the same index. The result is what they make, + 1, on host 1.
Waiting ChoosingElsewhere() {
  Waiting b("elsewhere");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2}), beyond = b.Sharding({4});
  const uint32_t predicate = b.Executable("args=1 outputs=1 dims=4 index=1 hold=1", {0});
  const uint32_t second = b.Executable(kAdd, {2}), third = b.Executable(kAdd, {4});
  const auto branch = [&](const char* name, uint32_t from, uint32_t device, uint32_t executable, int times) {
    Waiting made(name);
    uint32_t value = made.Transfer(made.Arg(from), device);
    for (int k = 0; k < times; ++k) value = made.Compute(executable, {value});
    made.Result(made.Transfer(value, there));
    b.AddBranch(made);
  };
  branch("inner0", beyond, there, second, 1);
  branch("inner1", beyond, beyond, third, 2);
  branch("outer0", here, there, second, 1);
  Waiting outer("outer1");
  const uint32_t of_outer = outer.Index(here), y = outer.Transfer(outer.Arg(here), beyond);
  outer.Result(outer.Select(of_outer, {outer.Compute(third, {y})}, {there}, {0, 1}));
  b.AddBranch(outer);
  Waiting first("first");
  first.Index(here);
  first.Result(first.Transfer(first.Arg(here), there));
  b.AddBranch(first);
  const uint32_t made = b.Compute(predicate, {b.Arg(here)}, 2);
  const uint32_t chosen = b.Select(made + 1, {made + 1, made}, {there}, {4, 3});
  b.Result(b.Compute(second, {chosen}));
  return b;
}

// Counts the messages that pass a host's connection to the controller, both ways.
struct Passing {
  explicit Passing(World* world) : world(world) {
    for (auto& worker : world->real) {
      worker->transport().on_frame = [this](const std::string&) { ++to_hosts; };
      worker->transport().Hold(true);  // what hosts would say is not heard
    }
  }
  ~Passing() {
    for (auto& worker : world->real) {
      worker->transport().on_frame = [](const std::string&) {};
      worker->transport().Hold(false);
    }
    world->Run();
  }
  World* const world;
  int to_hosts = 0;
};

TEST(HostsChoose, NothingPassesTheControllerBetweenThePredicateAndTheEndOfWhatFollowsTheBranch) {
  World world(3, /*sequential=*/false, ChoosingElsewhere());
  ASSERT_TRUE(world.Execute(world.program, {1}, {2}).ok());
  world.Run();
  const auto launches = [&](int host) { return world.real[static_cast<size_t>(host)]->runtime().launches().size(); };
  EXPECT_EQ(launches(0), 1u);
  EXPECT_EQ(launches(1) + launches(2), 0u);
  {
    const Passing passing(&world);
    world.real[0]->runtime().ReleaseHeld();
    world.Run();
    EXPECT_EQ(passing.to_hosts, 0);
    EXPECT_EQ(launches(1), 1u) << "what follows";
    EXPECT_EQ(launches(2), 3u) << "the second branch, and the second inner one";
  }
  EXPECT_THAT(*world.Floats(2), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(world.Sent(0, Command::kBeginChoice), 1u) << "and no other command for the choice";
  EXPECT_EQ(world.Sent(0, Command::kFetch) + world.Sent(0, Command::kFulfil), 0u);
  world.Drop({1, 2});
  EXPECT_EQ(world.AllArrays(), 0);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

// The accounts have what the chosen branch took, and nothing for the other.
TEST(HostsChoose, ASessionPaysForTheBranchThatRan) {
  Waiting b("costs");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t dear = b.Executable("args=1 outputs=1 dims=4 us=500", {2}),
                 cheap = b.Executable("args=1 outputs=1 dims=4 us=100", {0});
  b.Branch(here, {cheap}, here, here, false);
  b.Branch(here, {dear}, there, here, true);
  const uint32_t index = b.Index(here), x = b.Arg(here);
  b.Result(b.Select(index, {x}, {here}, {0, 1}));
  World world(2, ProgramCluster::Options(false), /*timed=*/true);
  world.Prepare(b);
  for (const auto& [chosen, cost] : {std::pair(0, 100.0), std::pair(1, 500.0)}) {
    world.cluster->fabric().gangs().TakeDone();
    world.PutIndex(2, chosen, 0);
    ASSERT_TRUE(world.Execute(world.program, {2, 1}, {3}).ok());
    world.Run();
    world.timers.Advance(absl::Milliseconds(20));
    world.Run();
    EXPECT_TRUE(world.Floats(3).ok());
    auto done = world.cluster->fabric().gangs().TakeDone();
    EXPECT_NEAR(done[world.session->id()].device_microseconds, cost, 1);
    EXPECT_EQ(done[world.session->id()].gangs, 1);
    world.Drop({2, 3});
  }
}

// A long choice would keep its devices from others for too long, so the controller sends its branch in stages.
TEST(HostsChoose, AChoiceThatTakesLongerThanAStageIsTheControllers) {
  Waiting b("long");
  const uint32_t here = b.Sharding({0});
  const uint32_t slow = b.Executable("args=1 outputs=1 dims=4 us=4000", {0});
  b.Branch(here, {slow, slow, slow}, here, here, false);
  const uint32_t index = b.Index(here), x = b.Arg(here);
  b.Result(b.Select(index, {x}, {here}, {0}));
  World world(1, ProgramCluster::Options(false), /*timed=*/true);
  world.Prepare(b);
  world.PutIndex(2, 0, 0);
  const int calls = 40;
  for (Handle result = 10; result < 10 + calls; ++result) {
    ASSERT_TRUE(world.Execute(world.program, {2, 1}, {result}).ok());
    for (int k = 0; k < 3; ++k) {
      world.Run();
      world.timers.Advance(absl::Milliseconds(20));
    }
    const auto floats = world.Floats(result);
    ASSERT_TRUE(floats.ok()) << floats.status();
    EXPECT_THAT(*floats, ElementsAre(4, 5, 6, 7));
  }
  const uint64_t hosts = world.Sent(0, Command::kBeginChoice);
  EXPECT_GE(hosts, 2u) << "the first, and those that measure it anew";
  EXPECT_LE(hosts, 1u + calls / 16 + 1);
}

TEST(HostsChoose, AHostThatIsLostBeforeItHasChosenFailsTheChoiceAndNamesItsNode) {
  World world(3, /*sequential=*/false, ChoosingElsewhere());
  ASSERT_TRUE(world.Execute(world.program, {1}, {2}).ok());
  world.Run();
  world.real[0]->Stop();
  world.Run();
  const absl::Status status = world.Floats(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("[at node "));
  world.Drop({1, 2});
  EXPECT_EQ(world.Arrays(1) + world.Arrays(2), 0);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

TEST(HostsChoose, ASessionThatEndsBeforeTheIndexIsKnownLeavesNothingBehind) {
  World world(3, /*sequential=*/false, ChoosingElsewhere());
  ASSERT_TRUE(world.Execute(world.program, {1}, {2}).ok());
  world.Run();
  world.session = nullptr;
  world.Run();
  world.real[0]->runtime().ReleaseHeld();
  EXPECT_EQ(world.AllArrays(), 0);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

// A choice between a branch on device 0, and one that runs `executable` on `device`.
Waiting Among(const char* executable, int device) {
  Waiting b("among");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({device});
  b.Branch(here, {b.Executable(kAdd, {0})}, here, here, false);
  b.Branch(here, {b.Executable(executable, {device})}, there, here, true);
  const uint32_t index = b.Index(here), x = b.Arg(here);
  b.Result(b.Select(index, {x}, {here}, {0, 1}));
  return b;
}

TEST_P(WaitingPrograms, ErrorsOfABranchNameItsNode) {
  World world(2, sequential());
  EXPECT_THAT(std::string(world.Load(Among("invalid=no_such_op", 2).proto).status().message()),
              HasSubstr("no such op [at node 2 of branch2: test.py:3]"));
  world.cluster->Spares(world.session->id());
  resource::SliceRequest one;
  one.count = 1;
  const auto slice = world.cluster->AddSlice(world.session->id(), one);
  ASSERT_TRUE(slice.ok()) << slice.status();
  world.Prepare(Among(kAdd, slice->devices[0].v));
  world.PutIndex(2, 0, 0);
  ASSERT_TRUE(world.Execute(world.program, {2, 1}, {3}).ok());
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  ASSERT_TRUE(world.cluster->ReleaseSlice(world.session->id(), slice->slice).ok());
  const std::string text(world.Execute(world.program, {2, 1}, {4}).status().message());
  EXPECT_THAT(text, HasSubstr("slice 1 was released, and the arrays on its device "));
  EXPECT_THAT(text, HasSubstr("[at node 1 of branch2: test.py:2]"));
}

// A program whose computation overwrites its argument.
Waiting Overwriting(int device = 0) {
  Waiting b("overwriting");
  const uint32_t x = b.Arg(b.Sharding({device}), true);
  b.Result(b.Compute(b.Executable(kDonate, {device}), {x}));
  return b;
}

// The index arrives after the client has given the argument to a computation that overwrites it.
TEST_P(WaitingPrograms, WhatTheClientGivesAwayMeanwhileIsStillThereForTheBranch) {
  World world(2, sequential(), Choosing());
  auto overwrite = world.Load(Overwriting().proto);
  ASSERT_TRUE(overwrite.ok());
  world.PutIndexLater(2, 0);
  ASSERT_TRUE(world.Execute(world.program, {2, 1}, {3, 4}).ok());
  ASSERT_TRUE(world.Execute((*overwrite)->handle, {1}, {5}).ok());
  ASSERT_TRUE(world.Execute((*overwrite)->handle, {3}, {6}).ok()) << "of a result that is not there yet";
  world.Run();
  world.SendIndex(2, 1);
  EXPECT_THAT(*world.Floats(4), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(*world.Floats(5), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*world.Floats(6), ElementsAre(5, 6, 7, 8));
  world.Drop({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(world.AllArrays(), 0);
}

// A donated argument belongs to the run from the call on, though the run uses it much later.
TEST_P(WaitingPrograms, WhatIsDonatedCannotBeTakenFromTheRunByAnotherHandle) {
  World world(2, sequential(), Choosing(true));
  auto overwriting = world.Load(Overwriting().proto);
  ASSERT_TRUE(overwriting.ok());
  ASSERT_TRUE(world.session->FullyReplicatedShard(7, 1, controller::CopySemantics::kReuseInput).ok());
  world.PutIndexLater(2, 0);
  ASSERT_TRUE(world.Execute(world.program, {2, 1}, {3, 4}).ok());
  EXPECT_TRUE(*world.session->IsDeleted(1));
  EXPECT_TRUE(*world.session->IsDeleted(7)) << "as if a computation had taken it at once";
  const auto refused = world.Execute((*overwriting)->handle, {7}, {5});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("deleted or donated"));
  world.Run();
  world.SendIndex(2, 1);
  EXPECT_THAT(*world.Floats(4), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(*world.Floats(3), ElementsAre(4, 5, 6, 7));
  world.Drop({1, 2, 3, 4, 7});
  EXPECT_EQ(world.AllArrays(), 0);
}

// A choice within a choice: takes two indices and an array.
Waiting Nested(int device) {
  Waiting b("nested");
  const uint32_t here = b.Sharding({device});
  b.Branch(here, {b.Executable(kAdd, {device})}, here, here, false);
  b.ChoosingBranch(here);
  const uint32_t first = b.Index(here), second = b.Index(here), x = b.Arg(here);
  b.Result(b.Select(first, {second, x}, {here}, {1}));
  return b;
}

// A run of Nested on a slice of one device. While it waits for both indices, the slice moves to the other host.
struct Moving {
  explicit Moving(World* world) {
    world->cluster->Spares(world->session->id());
    resource::SliceRequest one;
    one.count = 1;
    const auto slice = world->cluster->AddSlice(world->session->id(), one);
    EXPECT_TRUE(slice.ok()) << slice.status();
    const int device = slice->devices[0].v;
    host = slice->physical[0].v / 2;
    world->Prepare(Nested(device), device);
    for (Handle index : {2, 3}) world->PutIndexLater(index, device);
    EXPECT_TRUE(world->Execute(world->program, {2, 3, 1}, {4}).ok());
    world->cluster->DrainHost(absl::StrCat("w", host), false, [this](auto answer) { report = std::move(answer); });
    world->Run();
    EXPECT_FALSE(report.has_value()) << "the run has not ended";
    moved_to = world->cluster->fabric().topology().FindDevice(DeviceId(device))->physical.v;
    EXPECT_NE(moved_to / 2, host);
  }
  int host = 0;      // the host of the run
  int moved_to = 0;  // the device of the slice after the move
  std::optional<absl::StatusOr<controller::DrainReport>> report;
};

TEST_P(WaitingPrograms, ARunEndsWhereItBeganThoughItsSliceIsMovedMeanwhile) {
  World world(2, sequential());
  const Moving moving(&world);
  for (Handle index : {2, 3}) world.SendIndex(index, 0);
  const auto& report = moving.report;
  const int host = moving.host;
  ASSERT_TRUE(report.has_value() && report->ok());
  EXPECT_EQ((*report)->moved.size(), 1u);
  EXPECT_THAT(*world.Floats(4), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(world.Arrays(host), 0);
  ASSERT_TRUE(world.Execute(world.program, {2, 3, 4}, {5}).ok());
  EXPECT_THAT(*world.Floats(5), ElementsAre(3, 4, 5, 6));
  world.Drop({1, 2, 3, 4, 5});
  EXPECT_EQ(world.AllArrays(), 0);
}

// Handles are numbers, so a client may drop executables whose handles it was never given. The controller used to crash.
TEST_P(WaitingPrograms, AProgramWhoseExecutablesWereDroppedDoesNotMove) {
  World world(2, sequential());
  const Moving moving(&world);
  for (Handle guess = world.program - 16; guess < world.program; ++guess) world.session->DestructExecutable(guess).IgnoreError();
  for (Handle index : {2, 3}) world.SendIndex(index, 0);
  world.cluster->DrainHost(absl::StrCat("w", moving.host), true, [](auto) {});
  world.cluster->DrainHost(absl::StrCat("w", 1 - moving.host), false, [](auto) {});
  world.Run();
  EXPECT_THAT(std::string(world.Execute(world.program, {2, 3, 1}, {5}).status().message()), HasSubstr("was dropped"));
  EXPECT_THAT(*world.Floats(1), ElementsAre(1, 2, 3, 4));
}

// A branch that is chosen after the move still runs on the old device, and takes its turn there.
TEST_P(WaitingPrograms, ABranchThatIsChosenAfterAMoveDoesNotWaitForDevicesThatItDoesNotUse) {
  controller::ClusterOptions options = ProgramCluster::Options(sequential());
  options.gang.window_gangs = 1;
  options.gang.window_ns = 0;
  World world(2, options);
  const Moving moving(&world);
  const auto mover = world.session;
  world.Open();  // another client, whose computation keeps the new device
  Builder holding("holding");
  const uint32_t x = holding.Arg(holding.Sharding({moving.moved_to}));
  holding.Result(holding.Compute(holding.Executable("args=1 outputs=1 dims=4 hold=1", {moving.moved_to}), {x}));
  const auto held = world.Load(holding.proto);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(world.PutFloats(1, On({moving.moved_to}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*held)->handle, {1}, {2}).ok());
  world.Run();
  const auto other = std::exchange(world.session, mover);
  for (Handle index : {2, 3}) world.SendIndex(index, 0);
  EXPECT_TRUE(moving.report.has_value()) << "the run has ended";
  EXPECT_THAT(*world.Floats(4), ElementsAre(2, 3, 4, 5));
  world.real[static_cast<size_t>(moving.moved_to / 2)]->runtime().ReleaseHeld();
  world.Run();
  world.session = other;
  EXPECT_THAT(*world.Floats(2), ElementsAre(2, 3, 4, 5));
}

TEST_P(WaitingPrograms, ASessionThatEndsMeanwhileLeavesNothingBehind) {
  for (const Waiting& program : {Between(), Between(true)}) {
    World world(2, sequential(), program);
    world.Begin({1}, {2, 3});
    ASSERT_EQ(world.functions->calls.size(), 1u);
    world.session = nullptr;
    EXPECT_EQ(world.AllArrays(), 0);
    world.functions->Answer();
    EXPECT_EQ(world.AllArrays(), 0);
    EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
    EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
  }
}

TEST_P(WaitingPrograms, AHostThatIsLostMeanwhileFailsWhatWasToBeThere) {
  World world(2, sequential(), Between());
  world.Begin({1}, {2, 3});
  world.real[1]->Stop();
  world.Run();
  world.functions->Answer();
  EXPECT_EQ(world.Floats(2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  world.Drop({1, 2, 3});
  EXPECT_EQ(world.Arrays(0), 0);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

TEST_P(WaitingPrograms, TypesThatDoNotFitAreRefused) {
  World world(2, sequential());
  Waiting b = Choosing();
  b.proto.mutable_branches(1)->mutable_nodes()->rbegin()->mutable_result()->set_input(3);  // left on host 1
  EXPECT_THAT(std::string(world.Load(b.proto).status().message()), HasSubstr("result 0 of branch branch2 is f32[4]"));
  b = Choosing();
  b.proto.mutable_nodes(2)->mutable_select()->set_index(1);
  EXPECT_THAT(std::string(world.Load(b.proto).status().message()),
              HasSubstr("the index of a choice must be one s32 on one device, not f32[4]"));
}

// The client's next requests wait for a run, and the run still has to send nodes. They must not block it.
TEST(SequentialSteps, WorkOfTheClientThatWaitsForARunDoesNotStandInItsWay) {
  World world(2, true, Between());
  auto plain = world.Load([] {
    Builder b("plain");
    const uint32_t x = b.Arg(b.Sharding({2}));
    const uint32_t add = b.Executable(kAdd, {2});
    b.Result(b.Compute(add, {b.Compute(add, {x})}));
    return b.proto;
  }());
  ASSERT_TRUE(plain.ok());
  world.Begin({1}, {2, 3});
  for (Handle result : {10, 11}) ASSERT_TRUE(world.Execute((*plain)->handle, {2}, {result}).ok());
  world.Begin({1}, {4, 5});
  ASSERT_TRUE(world.Execute((*plain)->handle, {4}, {12}).ok());
  world.Run();
  while (!world.functions->calls.empty()) {
    world.functions->Answer();
    world.Run();
  }
  for (Handle result : {10, 11, 12}) EXPECT_THAT(*world.Floats(result), ElementsAre(23, 33, 43, 53));
  EXPECT_THAT(*world.Floats(5), ElementsAre(2, 3, 4, 5));
}

}  // namespace
}  // namespace pw::programs
