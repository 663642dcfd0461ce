// Tests programs that are dispatched node by node: when a node is sent, and which work waits for it. The island's scheduler must
// grant nodes like other computations. The tests count commands and results, and use no real clock.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/program_cluster.h"

namespace pw::programs {
namespace {

using controller::ClusterOptions;
using controller::Session;

ClusterOptions OneAtATime(const std::string& policy) {
  ClusterOptions options = ProgramCluster::Options(true);
  options.gang.policy = policy;
  options.gang.window_gangs = 1;
  options.gang.window_ns = 0;
  return options;
}

// A chain of `nodes` computations by `recipe` on the device.
::pathways::v1::Program Chain(int nodes, const std::string& recipe, int device = 0) {
  Builder builder("chain");
  const uint32_t executable = builder.Executable(recipe, {device});
  uint32_t value = builder.Arg(builder.Sharding({device}));
  for (int n = 0; n < nodes; ++n) value = builder.Compute(executable, {value});
  builder.Result(value);
  return builder.proto;
}

// A client with a program. Array 1 is its argument.
struct Client {
  Client(ProgramCluster* world, const ::pathways::v1::Program& program) {
    world->Open();
    session = world->session;
    auto info = world->Load(program);
    EXPECT_TRUE(info.ok()) << info.status();
    handle = (*info)->handle;
    EXPECT_TRUE(world->PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
    world->Run();
  }
  std::shared_ptr<Session> session;
  Handle handle = 0;
};

int64_t DeviceNs(ProgramCluster& world, const Client& client) {
  return world.cluster->fabric().gangs().ClientOf(client.session->id()).device_ns;
}

TEST(SequentialOrder, SharesHold) {
  ProgramCluster world(1, OneAtATime("share"), true);
  const auto program = Chain(4, "args=1 outputs=1 dims=4 us=1000");
  Client one(&world, program), three(&world, program);
  world.cluster->fabric().gangs().SetShare(three.session->id(), {.weight = 3});
  for (Handle result = 10; result < 60; ++result) {
    for (Client* client : {&one, &three}) {
      world.session = client->session;
      ASSERT_TRUE(world.Execute(client->handle, {1}, {result}).ok());
    }
  }
  world.Run();
  world.timers.Advance(absl::Milliseconds(80));
  const int64_t a = DeviceNs(world, one), b = DeviceNs(world, three);
  constexpr int64_t kNode = 1'000'000;
  EXPECT_GT(a + b, 70 * kNode) << "the device stands still";
  EXPECT_NEAR(static_cast<double>(b), 3.0 * static_cast<double>(a), 8.0 * kNode) << "two nodes of each more or less";
  world.timers.Advance(absl::Seconds(1));
  EXPECT_EQ(DeviceNs(world, one) + DeviceNs(world, three), 400 * kNode);
}

TEST(SequentialOrder, ANodeThatMattersMoreGoesBeforeTheRestOfAProgram) {
  ProgramCluster world(1, OneAtATime("priority"), true);
  Client slow(&world, Chain(20, "args=1 outputs=1 dims=4 us=1000"));
  Client quick(&world, Chain(1, "args=1 outputs=1 dims=4 us=1000"));
  world.cluster->fabric().gangs().SetShare(quick.session->id(), {.priority = 5});
  world.session = slow.session;
  ASSERT_TRUE(world.Execute(slow.handle, {1}, {2}).ok());
  world.Run();
  world.timers.Advance(absl::Microseconds(3500));
  world.session = quick.session;
  ASSERT_TRUE(world.Execute(quick.handle, {1}, {2}).ok());
  world.Run();
  world.timers.Advance(absl::Milliseconds(2));
  EXPECT_EQ(*world.Floats(2), std::vector<float>({2, 3, 4, 5}));
  EXPECT_LT(DeviceNs(world, slow), 8'000'000) << "the long one has only begun";
  world.timers.Advance(absl::Milliseconds(30));
  world.session = slow.session;
  EXPECT_EQ(*world.Floats(2), std::vector<float>({21, 22, 23, 24}));
}

// Work of the client that waits for a run takes no place in the window, because the run needs it.
TEST(SequentialOrder, AClientsOwnLaterWorkDoesNotStandInItsWay) {
  ProgramCluster world(1, OneAtATime("fifo"), true);
  Client client(&world, Chain(5, "args=1 outputs=1 dims=4 us=1000"));
  for (Handle result = 2; result < 12; ++result) ASSERT_TRUE(world.Execute(client.handle, {1}, {result}).ok());
  controller::CompileRequest request;
  request.format = "sim";
  request.program = Bytes::FromString("args=1 outputs=1 dims=4 us=1000");
  request.num_partitions = 1;
  request.devices = {DeviceId(0)};
  auto jit = world.Await<std::shared_ptr<const controller::ExecutableInfo>>(
      [&](auto done) { world.session->Compile(std::move(request), std::move(done)); });
  ASSERT_TRUE(jit.ok()) << jit.status();
  ASSERT_TRUE(world.Execute((*jit)->handle, {1}, {19}).ok());  // needs nothing of the runs
  ASSERT_TRUE(world.Execute((*jit)->handle, {5}, {20}).ok());
  world.Run();
  world.timers.Advance(absl::Seconds(1));
  for (Handle result = 2; result < 12; ++result) EXPECT_EQ(*world.Floats(result), std::vector<float>({6, 7, 8, 9}));
  EXPECT_EQ(*world.Floats(19), std::vector<float>({2, 3, 4, 5}));
  EXPECT_EQ(*world.Floats(20), std::vector<float>({7, 8, 9, 10}));
}

// Other clients wait for a node, not for the whole run.
TEST(SequentialOrder, OtherClientsGoOnWhileANodeRuns) {
  ProgramCluster world(1, true);
  Client held(&world, Chain(3, "args=1 outputs=1 dims=4 hold=1"));
  Client other(&world, Chain(3, kAdd));
  world.session = held.session;
  ASSERT_TRUE(world.Execute(held.handle, {1}, {2}).ok());
  world.Run();
  world.session = other.session;
  ASSERT_TRUE(world.Execute(other.handle, {1}, {2}).ok());
  EXPECT_EQ(*world.Floats(2), std::vector<float>({4, 5, 6, 7}));
  world.real[0]->runtime().ReleaseHeld();
  world.Run();
  world.session = held.session;
  EXPECT_EQ(*world.Floats(2), std::vector<float>({4, 5, 6, 7}));
}

using ::pathways::v1::Command;

constexpr char kHold[] = "args=1 outputs=1 dims=4 hold=1";

// Computes x + 1 on host 0, y = (x + 1) + 1 on host 1, and y + 2 x + 1 on host 0.
::pathways::v1::Program ThereAndBack(const std::string& recipe) {
  Builder b("there_and_back");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t x = b.Arg(here);
  const uint32_t on_other = b.Compute(b.Executable(recipe, {2}), {b.Transfer(b.Compute(b.Executable(recipe, {0}), {x}), there)});
  b.Result(b.Compute(b.Executable("args=2 outputs=1 dims=4", {0}), {b.Transfer(on_other, here), x}));
  return b.proto;
}

TEST(SequentialDispatch, ANodeIsSentWhenTheOneBeforeIsEnqueuedThoughNoneHasEnded) {
  ProgramCluster world(2, true);
  Client client(&world, ThereAndBack(kHold));
  ASSERT_TRUE(world.Execute(client.handle, {1}, {2}).ok());
  EXPECT_EQ(world.Sent(0, Command::kExecute), 1u);
  EXPECT_EQ(world.Sent(1, Command::kExecute) + world.Sent(1, Command::kMove), 0u) << "its hosts have not said so yet";
  world.Run();
  EXPECT_EQ(world.Sent(0, Command::kExecute), 2u);
  EXPECT_EQ(world.Sent(1, Command::kExecute), 1u);
  EXPECT_EQ(world.cluster->fabric().outbox().counters(HostId(1)).of(Command::kMove), 2u) << "one to get x, one to give";
  EXPECT_EQ(world.Ready({2}).code(), absl::StatusCode::kCancelled) << "it waits: nothing has ended";
  for (int host : {0, 1}) {
    world.real[host]->runtime().ReleaseHeld();
    world.Run();
  }
  EXPECT_EQ(*world.Floats(2), std::vector<float>({3 + 2 * 1 + 1, 4 + 2 * 2 + 1, 5 + 2 * 3 + 1, 6 + 2 * 4 + 1}));
}

// Another client holds host 1's device, so the second node of ThereAndBack does not get its turn.
struct Blocked {
  Blocked() : world(2, OneAtATime("fifo")), other(&world, Holding()) {
    world.session = other.session;
    EXPECT_TRUE(world.PutFloats(3, On({2}), {1, 2, 3, 4}).ok());
    EXPECT_TRUE(world.Execute(other.handle, {3}, {2}).ok());
    world.Run();
  }
  static ::pathways::v1::Program Holding() {
    Builder b("holding");
    b.Result(b.Compute(b.Executable(kHold, {2}), {b.Arg(b.Sharding({2}))}));
    return b.proto;
  }
  uint64_t Executes(int host) { return world.Sent(host, Command::kExecute) - (host == 1 ? 1 : 0); }
  Handle Load(const ::pathways::v1::Program& program) {
    auto info = world.Load(program);
    EXPECT_TRUE(info.ok()) << info.status();
    return (*info)->handle;
  }
  void Unblock() {
    world.real[1]->runtime().ReleaseHeld();
    world.Run();
  }
  ProgramCluster world;
  Client other;
};

const std::vector<float> kThereAndBack = {6, 9, 12, 15};

TEST(SequentialDispatch, ANodeIsNotSentBeforeTheOneBeforeHasItsTurn) {
  Blocked blocked;
  ProgramCluster& world = blocked.world;
  Client client(&world, ThereAndBack(kAdd));
  ASSERT_TRUE(world.Execute(client.handle, {1}, {2}).ok());
  world.Run();
  EXPECT_EQ(blocked.Executes(0), 1u);
  EXPECT_EQ(blocked.Executes(1), 1u) << "it is there, and not granted";
  blocked.Unblock();
  EXPECT_EQ(blocked.Executes(0), 2u);
  EXPECT_EQ(*world.Floats(2), kThereAndBack);
}

TEST(SequentialDispatch, CallsOfOneClientDoNotExcludeEachOther) {
  Blocked blocked;
  ProgramCluster& world = blocked.world;
  Client client(&world, ThereAndBack(kAdd));
  const Handle here = blocked.Load(Chain(3, kAdd));
  for (Handle result : {2, 3}) ASSERT_TRUE(world.Execute(client.handle, {1}, {result}).ok());
  ASSERT_TRUE(world.Execute(here, {1}, {4}).ok());
  EXPECT_EQ(*world.Floats(4), std::vector<float>({4, 5, 6, 7})) << "of the argument of runs that have not been sent";
  EXPECT_EQ(blocked.Executes(0), 2u + 3u);
  EXPECT_EQ(blocked.Executes(1), 2u) << "the second call is as far as the first";
  blocked.Unblock();
  for (Handle result : {2, 3}) EXPECT_EQ(*world.Floats(result), kThereAndBack);
}

TEST(SequentialDispatch, WorkThatNamesWhatARunMakesOrTakesOverWhatItNeedsWaitsUntilItHasBeenSent) {
  Blocked blocked;
  ProgramCluster& world = blocked.world;
  Client client(&world, ThereAndBack(kAdd));
  const Handle here = blocked.Load(Chain(1, kAdd)), donating = blocked.Load([] {
    Builder b("donating");
    b.Result(b.Compute(b.Executable(device::kDonate, {0}), {b.Arg(b.Sharding({0}), /*donated=*/true)}));
    return b.proto;
  }());
  ASSERT_TRUE(world.Execute(client.handle, {1}, {2}).ok());
  ASSERT_TRUE(world.Execute(here, {2}, {3}).ok());      // reads the run's result
  ASSERT_TRUE(world.Execute(donating, {1}, {4}).ok());  // overwrites the run's argument
  ASSERT_TRUE(world.Execute(here, {4}, {5}).ok());      // reads the result of waiting work
  world.Run();
  EXPECT_EQ(blocked.Executes(0), 1u);
  const uint64_t released = world.Sent(0, Command::kRelease);  // the run's own releases
  ASSERT_TRUE(world.session->Destruct({2}).ok());
  world.Run();
  EXPECT_EQ(world.Sent(0, Command::kRelease), released);
  blocked.Unblock();
  EXPECT_EQ(*world.Floats(3), std::vector<float>({7, 10, 13, 16}));
  EXPECT_EQ(*world.Floats(4), std::vector<float>({2, 3, 4, 5}));
  EXPECT_EQ(*world.Floats(5), std::vector<float>({3, 4, 5, 6}));
  ASSERT_TRUE(world.session->Destruct({3, 4, 5}).ok());
  EXPECT_EQ(world.Arrays(0), 1) << "the other client's";
}

// A jit call that needs no array of the run is granted at once. Others wait until the run has been sent.
TEST(SequentialDispatch, JitCallsWaitOnlyForRunsWhoseArraysTheyName) {
  Blocked blocked;
  ProgramCluster& world = blocked.world;
  Client client(&world, ThereAndBack(kAdd));
  controller::CompileRequest request;
  request.format = "sim";
  request.program = Bytes::FromString(kAdd);
  request.num_partitions = 1;
  request.devices = {DeviceId(0)};
  auto jit = world.Await<std::shared_ptr<const controller::ExecutableInfo>>(
      [&](auto done) { world.session->Compile(std::move(request), std::move(done)); });
  ASSERT_TRUE(jit.ok()) << jit.status();
  ASSERT_TRUE(world.PutFloats(10, On({0}), {1, 1, 1, 1}).ok());
  ASSERT_TRUE(world.Execute(client.handle, {1}, {2}).ok());
  ASSERT_TRUE(world.Execute((*jit)->handle, {2}, {3}).ok());
  ASSERT_TRUE(world.Execute((*jit)->handle, {10}, {11}).ok());
  EXPECT_EQ(*world.Floats(11), std::vector<float>({2, 2, 2, 2}));
  EXPECT_EQ(blocked.Executes(0), 2u);
  blocked.Unblock();
  EXPECT_EQ(*world.Floats(3), std::vector<float>({7, 10, 13, 16}));
}

// Runs leave nothing behind, not even those that have not begun.
TEST(SequentialDispatch, ASessionThatEndsInTheMiddleOfItsRunsLeavesNothingBehind) {
  Blocked blocked;
  ProgramCluster& world = blocked.world;
  {
    Client client(&world, ThereAndBack(kAdd));
    const Handle here = blocked.Load(Chain(1, kAdd));
    ASSERT_TRUE(world.Execute(client.handle, {1}, {2}).ok());
    ASSERT_TRUE(world.Execute(here, {2}, {3}).ok());
    world.Run();
    world.session = blocked.other.session;
  }
  blocked.Unblock();
  EXPECT_EQ(*world.Floats(2), std::vector<float>({2, 3, 4, 5})) << "the other client's";
  ASSERT_TRUE(world.session->Destruct({1, 2, 3}).ok());
  for (int host : {0, 1}) EXPECT_EQ(world.Arrays(host), 0);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
  EXPECT_TRUE(world.cluster->fabric().outbox().order().empty());
}

}  // namespace
}  // namespace pw::programs
