// Programs that are dispatched node by node are granted by the island's scheduler like all else.
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

// x -> x + 1, `nodes` times, on the device.
::pathways::v1::Program Chain(int nodes, const std::string& recipe, int device = 0) {
  Builder builder("chain");
  const uint32_t executable = builder.Executable(recipe, {device});
  uint32_t value = builder.Arg(builder.Sharding({device}));
  for (int n = 0; n < nodes; ++n) value = builder.Compute(executable, {value});
  builder.Result(value);
  return builder.proto;
}

// A client with a program and its argument, array 1.
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

// What waits behind a run takes no place in the window, which the run needs.
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

// Nor do others wait for a whole run.
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

}  // namespace
}  // namespace pw::programs
