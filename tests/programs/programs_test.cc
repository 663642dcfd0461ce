// Tests whole programs with a controller, real workers and simulated devices.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/program_cluster.h"

namespace pw::programs {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A chain of `length` computations, the k-th on host k % hosts.
::pathways::v1::Program Chain(int length, int hosts, const std::string& middle = kAdd) {
  Builder b("chain");
  std::vector<uint32_t> shardings, executables;
  for (int h = 0; h < hosts; ++h) {
    shardings.push_back(b.Sharding({2 * h, 2 * h + 1}));
    executables.push_back(b.Executable(kAdd, {2 * h, 2 * h + 1}));
  }
  uint32_t value = b.Arg(shardings[0]);
  for (int k = 0; k < length; ++k) {
    if (hosts > 1 && k > 0) value = b.Transfer(value, shardings[k % hosts]);
    const int host = k % hosts;
    value = b.Compute(k == length / 2 && middle != kAdd ? b.Executable(middle, {2 * host, 2 * host + 1}) : executables[host],
                      {value});
  }
  b.Result(value);
  return b.proto;
}

class Programs : public ::testing::TestWithParam<bool> {
 protected:
  bool sequential() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dispatch, Programs, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Sequential" : "Parallel"; });

TEST_P(Programs, AChainAcrossHostsGivesTheSumAndLeavesNothingBehind) {
  ProgramCluster world(3, sequential());
  auto program = world.Load(Chain(10, 3));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  auto reply = world.Execute((*program)->handle, {1}, {2});
  ASSERT_TRUE(reply.ok()) << reply.status();
  auto values = world.Floats(2);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(11, 12, 13, 14));
  EXPECT_EQ(world.Arrays(0), 2) << "the argument and, since the tenth computation runs there, the result";
  EXPECT_EQ(world.Arrays(1), 0);
  EXPECT_EQ(world.Arrays(2), 0);
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2}).ok());
  EXPECT_TRUE(world.session->DestructExecutable((*program)->handle).ok());
  for (int h = 0; h < 3; ++h) EXPECT_EQ(world.Arrays(h), 0);
  EXPECT_EQ(world.impl().num_executables(), 0u);
}

TEST(ParallelDispatch, ARunIsOneMessageToEachHostAndOneRecordForEachResult) {
  ProgramCluster world(3, false);
  auto program = world.Load(Chain(128, 3));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  world.Run();
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {3}).ok());  // its nodes' times are unknown yet, so it is cut into stages
  EXPECT_THAT(*world.Floats(3), ElementsAre(129, 130, 131, 132));
  ASSERT_TRUE(world.session->Destruct({3}).ok());
  world.Run();
  std::vector<uint64_t> frames;
  for (int h = 0; h < 3; ++h) frames.push_back(world.cluster->fabric().outbox().counters(HostId(h)).frames);
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {2}).ok());
  EXPECT_EQ(world.impl().num_arrays(), 2u) << "the argument and the result";
  EXPECT_EQ(world.cluster->fabric().ops().size(), 3u) << "one completion for each host";
  world.Run();
  for (int h = 0; h < 3; ++h) {
    EXPECT_EQ(world.Runs(h), 2u);
    EXPECT_EQ(world.Sent(h, Command::kExecute), 0u);
    EXPECT_EQ(world.Sent(h, Command::kMove), 0u);
    EXPECT_EQ(world.cluster->fabric().outbox().counters(HostId(h)).programs, 1u);
    EXPECT_EQ(world.cluster->fabric().outbox().counters(HostId(h)).frames, frames[h] + 1);
  }
  EXPECT_THAT(*world.Floats(2), ElementsAre(129, 130, 131, 132));
  EXPECT_EQ(world.impl().num_program_runs(), 0u);
}

TEST(ParallelDispatch, AProgramsGraphGoesWithItsHandleAndWithItsSession) {
  ProgramCluster world(2, false);
  const auto installed = [&] {
    world.Run();
    EXPECT_EQ(world.real[0]->programs(), world.real[1]->programs());
    return world.real[0]->programs();
  };
  const auto first = world.Load(Chain(6, 2)), second = world.Load(Chain(8, 2));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(installed(), 2u);
  EXPECT_TRUE(world.session->DestructExecutable((*first)->handle).ok());
  EXPECT_EQ(installed(), 1u);
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*second)->handle, {1}, {2}).ok());
  EXPECT_THAT(*world.Floats(2), ElementsAre(9, 10, 11, 12));
  world.session = nullptr;
  EXPECT_EQ(installed(), 0u);
}

TEST(SequentialDispatch, EveryNodeIsSentByItselfAfterTheOneBefore) {
  ProgramCluster world(2, true);
  auto program = world.Load(Chain(6, 2));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {2}).ok());
  EXPECT_EQ(world.Sent(0, Command::kExecute) + world.Sent(1, Command::kExecute), 1u);
  EXPECT_THAT(*world.Floats(2), ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(world.Sent(0, Command::kExecute), 3u);
  EXPECT_EQ(world.Sent(1, Command::kExecute), 3u);
  EXPECT_EQ(world.Runs(0), 0u);
}

TEST_P(Programs, AFailingNodeIsNamedAndFailsOnlyWhatDependsOnIt) {
  ProgramCluster world(2, sequential());
  Builder b("step");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t add = b.Executable(kAdd, {0}), add_there = b.Executable(kAdd, {2});
  const uint32_t fail = b.Executable("args=1 outputs=1 dims=4 fail=boom", {0});
  const uint32_t x = b.Arg(here);
  const uint32_t good = b.Compute(add, {x});
  const uint32_t bad = b.Compute(fail, {x});
  const uint32_t bad_there = b.Compute(add_there, {b.Transfer(bad, there)});
  const uint32_t good_there = b.Compute(add_there, {b.Transfer(good, there)});
  for (uint32_t value : {good, bad, bad_there, good_there}) b.Result(value);
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {10, 11, 12, 13}, 99).ok());
  EXPECT_THAT(*world.Floats(10), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*world.Floats(13), ElementsAre(3, 4, 5, 6));
  for (Handle h : {11, 12}) {
    const absl::Status status = world.Ready({h});
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("boom [at node 2 of step: test.py:3]"));
  }
  auto run = world.Await<controller::RunResult>([&](auto done) { world.session->FetchExecuteResult(99, std::move(done)); });
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("boom"));
  EXPECT_EQ(world.Arrays(0), 3);
  EXPECT_EQ(world.Arrays(1), 2);
}

TEST_P(Programs, AnArgumentThatIsAnErrorFailsOnlyWhatDependsOnIt) {
  ProgramCluster world(2, sequential());
  Builder b("step");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t add = b.Executable(kAdd, {0}), add_there = b.Executable(kAdd, {2});
  const uint32_t x = b.Arg(here), y = b.Arg(here);
  b.Result(b.Compute(add_there, {b.Transfer(x, there)}));
  b.Result(b.Compute(add, {y}));
  b.Result(x);
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.session->MakeErrorArray(1, On({0}), absl::DataLossError("it burnt")).ok());
  ASSERT_TRUE(world.PutFloats(2, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1, 2}, {10, 11, 12}).ok());
  EXPECT_EQ(world.Ready({10}).message(), "it burnt");
  EXPECT_EQ(world.Ready({12}).message(), "it burnt");
  EXPECT_THAT(*world.Floats(11), ElementsAre(2, 3, 4, 5));
}

TEST_P(Programs, ACompileErrorNamesTheNodeAndNothingStays) {
  ProgramCluster world(2, sequential());
  auto program = world.Load(Chain(10, 2, "invalid=no_such_op"));
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("no such op [at node 11 of chain: test.py:12]"));
  EXPECT_EQ(world.impl().num_executables(), 0u);
  EXPECT_EQ(world.impl().num_programs(), 0u);
}

TEST_P(Programs, DonatedArgumentsAreTakenOverAndInputsThatAreStillNeededAreNot) {
  ProgramCluster world(1, sequential());
  Builder b("step");
  const uint32_t here = b.Sharding({0});
  const uint32_t donate = b.Executable(kDonate, {0});
  const uint32_t x = b.Arg(here, /*donated=*/true), y = b.Arg(here);
  const uint32_t once = b.Compute(donate, {x});   // x is used again, so it is not overwritten
  const uint32_t twice = b.Compute(donate, {x});  // overwrites x
  const uint32_t kept = b.Compute(donate, {y});   // the caller keeps y
  b.Result(b.Compute(donate, {once}));
  b.Result(twice);
  b.Result(b.Compute(donate, {twice}));  // a result is not overwritten
  b.Result(kept);
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.PutFloats(2, On({0}), {5, 6, 7, 8}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1, 2}, {10, 11, 12, 13}).ok());
  EXPECT_TRUE(*world.session->IsDeleted(1));
  EXPECT_FALSE(*world.session->IsDeleted(2));
  EXPECT_THAT(*world.Floats(10), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(*world.Floats(11), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*world.Floats(12), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(*world.Floats(13), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(*world.Floats(2), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(world.Arrays(0), 5) << "y and four results";
}

TEST_P(Programs, ArgumentsMayComeShardByShard) {
  ProgramCluster world(2, sequential());
  Builder b("step");
  const uint32_t both = b.Sharding({0, 2}, /*rows=*/true), one = b.Sharding({1});
  const uint32_t x = b.Arg(both, false, /*apart=*/true);
  b.Result(b.Compute(b.Executable(kAdd, {1}), {b.Transfer(x, one)}));
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->devices, std::vector<DeviceId>{DeviceId(0)});
  for (int s = 0; s < 2; ++s) {
    const std::vector<float> half = {s * 2.0f, s * 2.0f + 1};
    ASSERT_TRUE(
        world.PutFloats(1 + s, {buffers::DType::kF32, {2}, buffers::Sharding::SingleDevice(DeviceId(2 * s), "")}, half).ok());
  }
  auto reply = world.Execute((*program)->handle, {1, 2}, {10});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(*world.Floats(10), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(world.Arrays(0), 2);
  EXPECT_EQ(world.Arrays(1), 1);
}

TEST_P(Programs, ArraysOfAnotherKindAreRefusedNamingTheArgument) {
  ProgramCluster world(2, sequential());
  auto program = world.Load(Chain(2, 2));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({2, 3}), {1, 2, 3, 4}).ok());
  EXPECT_THAT(
      std::string(world.Execute((*program)->handle, {1}, {2}).status().message()),
      HasSubstr("argument 0 of program chain is f32[4] over 2 devices (2,3) where f32[4] over 2 devices (0,1) is expected"));
  EXPECT_FALSE(world.Execute((*program)->handle, {}, {3}).ok());
  EXPECT_FALSE(world.Execute((*program)->handle, {1, 1}, {4}).ok());
  EXPECT_FALSE(world.Execute((*program)->handle, {77}, {5}).ok());
  EXPECT_FALSE(world.Ready({2}).ok());
}

TEST_P(Programs, ALargeArrayForManyHostsIsSentOnceAndGatheredThere) {
  constexpr int64_t kLarge = 1 << 20;
  ProgramCluster world(3, sequential());
  Builder b("broadcast");
  const uint32_t here = b.Sharding({0, 1}), there = b.Sharding({2, 3, 4, 5});
  const uint32_t arg = b.Arg(here);
  b.proto.mutable_nodes(0)->mutable_arg()->set_dims(0, kLarge);
  b.Result(b.Transfer(arg, there));
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  buffers::ArraySpec spec = On({0, 1});
  spec.dims = {kLarge};
  std::vector<float> values(kLarge);
  for (int64_t i = 0; i < kLarge; ++i) values[i] = static_cast<float>(i);
  ASSERT_TRUE(world.PutFloats(1, spec, values).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {2}).ok());
  auto result = world.Floats(2);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(*result == values);
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2}).ok());
  for (int h = 0; h < 3; ++h) EXPECT_EQ(world.Arrays(h), 0);
  if (!sequential()) return;
  EXPECT_EQ(world.Sent(0, Command::kMove), 1u) << "the parts are scattered";
  EXPECT_EQ(world.Sent(1, Command::kMove), 3u) << "a part, all parts, and a copy for the other device";
}

TEST_P(Programs, ASessionsEndReleasesWhatItsRunsHold) {
  ProgramCluster world(2, sequential());
  auto program = world.Load(Chain(8, 2, "args=1 outputs=1 dims=4 hold=1"));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {2}).ok());
  world.Run();
  world.session = nullptr;
  world.Run();
  world.real[0]->runtime().ReleaseHeld();
  world.Run();
  for (int h = 0; h < 2; ++h) EXPECT_EQ(world.Arrays(h), 0);
}

TEST_P(Programs, AHostLostInMidRunFailsWhatDependsOnItNamingHostAndNode) {
  ProgramCluster world(3, sequential());
  Builder b("step");
  const uint32_t s0 = b.Sharding({0}), s1 = b.Sharding({2}), s2 = b.Sharding({4});
  const uint32_t x = b.Arg(s0);
  const uint32_t good = b.Compute(b.Executable(kAdd, {0}), {x});
  const uint32_t held = b.Compute(b.Executable("args=1 outputs=1 dims=4 hold=1", {2}), {b.Transfer(x, s1)});
  const uint32_t after = b.Compute(b.Executable(kAdd, {4}), {b.Transfer(held, s2)});
  const uint32_t beside = b.Compute(b.Executable(kAdd, {4}), {b.Transfer(x, s2)});
  for (uint32_t value : {good, held, after, beside}) b.Result(value);
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {10, 11, 12, 13}).ok());
  world.Run();
  world.real[1]->Stop();
  world.Run();
  EXPECT_THAT(*world.Floats(10), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*world.Floats(13), ElementsAre(2, 3, 4, 5));
  const absl::Status lost = world.Ready({11});
  EXPECT_THAT(std::string(lost.message()), HasSubstr("host 'w1'"));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("[at node 3 of step: test.py:4]"));
  const absl::Status dependent = world.Ready({12});
  EXPECT_FALSE(dependent.ok());
  EXPECT_THAT(std::string(dependent.message()), HasSubstr("host 'w1'"));
  EXPECT_THAT(std::string(dependent.message()), HasSubstr("[at node "));
  EXPECT_FALSE(world.Execute((*program)->handle, {1}, {20, 21, 22, 23}).ok()) << "the program cannot run without the host";
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 10, 11, 12, 13}).ok());
  EXPECT_EQ(world.Arrays(0), 0);
  EXPECT_EQ(world.Arrays(2), 0);
}

TEST_P(Programs, AnArgumentMayBeAResultMoreThanOnce) {
  ProgramCluster world(2, sequential());
  Builder b("step");
  const uint32_t s0 = b.Sharding({0});
  const uint32_t x = b.Arg(s0);
  b.Result(x);
  b.Result(x);
  auto program = world.Load(b.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {10, 11}).ok());
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1}).ok());
  EXPECT_THAT(*world.Floats(10), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*world.Floats(11), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(world.Arrays(0), 2);
}

TEST_P(Programs, TheProgramMayGoWhileItRuns) {
  ProgramCluster world(2, sequential());
  auto program = world.Load(Chain(8, 2));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(world.PutFloats(1, On({0, 1}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute((*program)->handle, {1}, {2}).ok());
  EXPECT_TRUE(world.session->DestructExecutable((*program)->handle).ok());
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1}).ok());
  EXPECT_THAT(*world.Floats(2), ElementsAre(9, 10, 11, 12));
  EXPECT_EQ(world.impl().num_executables(), 0u);
  EXPECT_FALSE(world.Execute((*program)->handle, {2}, {3}).ok());
}

}  // namespace
}  // namespace pw::programs
