// Programs with nodes that wait for values: a controller, real workers, simulated devices, and a client's functions in C++.
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/program_cluster.h"

namespace pw::programs {
namespace {

using controller::HostShard;
using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kAdd[] = "args=1 outputs=1 dims=4";              // x + 1
constexpr char kDonate[] = "args=1 outputs=1 dims=4 donate=0";  // likewise, in place

// Answers calls when the test says so.
struct Functions : controller::HostCallHandler {
  void OnHostCall(controller::HostCall call, controller::ResultCallback<std::vector<Bytes>> done) override {
    calls.push_back({std::move(call), std::move(done)});
  }
  // The oldest call returns its first operand times ten.
  void Answer() {
    auto [call, done] = std::move(calls.front());
    calls.erase(calls.begin());
    std::vector<float> values(call.data[0].size() / sizeof(float));
    std::memcpy(values.data(), call.data[0].data(), call.data[0].size());
    for (float& value : values) value *= 10;
    std::move(done)(
        std::vector<Bytes>{Bytes::Copy(std::string(reinterpret_cast<const char*>(values.data()), call.data[0].size()))});
  }
  struct Call {
    controller::HostCall call;
    controller::ResultCallback<std::vector<Bytes>> done;
  };
  std::vector<Call> calls;
};

// Nodes that Builder does not know.
class Waiting : public Builder {
 public:
  using Builder::Builder;
  uint32_t Index(uint32_t sharding) {  // an s32 argument
    const uint32_t value = Arg(sharding);
    auto* arg = proto.mutable_nodes()->rbegin()->mutable_arg();
    arg->set_dtype(4);
    arg->clear_dims();
    return value;
  }
  uint32_t HostCall(uint32_t input, uint32_t sharding) {
    auto* call = Node()->mutable_host_call();
    call->set_callback(7);
    call->add_inputs(input);
    Typed(call->add_outputs(), sharding);
    return values_++;
  }
  uint32_t Select(uint32_t index, const std::vector<uint32_t>& inputs, uint32_t sharding, const std::vector<uint32_t>& branches) {
    auto* select = Node()->mutable_select();
    select->set_index(index);
    for (uint32_t input : inputs) select->add_inputs(input);
    for (uint32_t b : branches) select->add_branches(b);
    Typed(select->add_outputs(), sharding);
    return values_++;
  }
  // A branch of an index and an array that chooses among branch 0 alone.
  void ChoosingBranch(uint32_t sharding) {
    Waiting inner("inner");
    inner.proto.mutable_shardings()->CopyFrom(proto.shardings());
    const uint32_t index = inner.Index(sharding), x = inner.Arg(sharding);
    inner.Result(inner.Select(index, {x}, sharding, {0}));
    auto* branch = proto.add_branches();
    branch->set_name("choosing");
    *branch->mutable_nodes() = inner.proto.nodes();
  }
  // A branch of one argument through so many executables.
  void Branch(uint32_t from, const std::vector<uint32_t>& executables, uint32_t to, uint32_t sharding, bool move) {
    auto* branch = proto.add_branches();
    branch->set_name(absl::StrCat("branch", proto.branches_size()));
    auto* arg = branch->add_nodes()->mutable_arg();
    arg->set_dtype(kF32);
    arg->add_dims(kElements);
    arg->set_sharding(from);
    uint32_t value = 0;
    auto transfer = [&](uint32_t target) {
      branch->add_nodes()->mutable_transfer()->set_input(value++);
      branch->mutable_nodes()->rbegin()->mutable_transfer()->set_sharding(target);
    };
    if (move) transfer(to);
    for (uint32_t executable : executables) {
      auto* compute = branch->add_nodes()->mutable_compute();
      compute->set_executable(executable);
      compute->add_inputs(value++);
      compute->set_num_outputs(1);
    }
    if (move) transfer(sharding);
    branch->add_nodes()->mutable_result()->set_input(value);
  }

 private:
  static void Typed(::pathways::v1::ProgramNode::Type* type, uint32_t sharding) {
    type->set_dtype(kF32);
    type->add_dims(kElements);
    type->set_sharding(sharding);
  }
};

struct World : ProgramCluster {
  explicit World(int hosts, bool sequential = false)
      : ProgramCluster(hosts, sequential), functions(std::make_shared<Functions>()) {
    cluster->SetHostCallHandler(session->id(), functions);
  }
  Handle Prepare(const Waiting& program) {
    auto info = Load(program.proto);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? (*info)->handle : 0;
  }
  absl::Status PutIndex(Handle handle, int32_t index, int device) {
    const buffers::ArraySpec spec{buffers::DType::kS32, {}, buffers::Sharding::SingleDevice(DeviceId(device), "")};
    return Put(handle, spec, std::string(reinterpret_cast<const char*>(&index), sizeof index));
  }
  std::shared_ptr<Functions> functions;
};

// x + 1 on host 0, ten times that by a function, + 1 on host 1; and beside it x + 1 alone.
Waiting Between(bool donated = false) {
  Waiting b("between");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t x = b.Arg(here, donated);
  const uint32_t y = b.Compute(b.Executable(kAdd, {0}), {x});
  const uint32_t z = b.HostCall(y, here);
  b.Result(b.Compute(b.Executable(kAdd, {2}), {b.Transfer(z, there)}));
  b.Result(b.Compute(b.Executable(kAdd, {0}), {x}));
  return b;
}

TEST(WaitingPrograms, AFunctionRunsBetweenComputationsAndTheRestDoesNotWait) {
  World world(2);
  const Handle program = world.Prepare(Between());
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute(program, {1}, {2, 3}).ok());
  world.Run();
  ASSERT_EQ(world.functions->calls.size(), 1u);
  EXPECT_EQ(world.functions->calls[0].call.callback, 7u);
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5)) << "while the function runs";
  world.functions->Answer();
  EXPECT_THAT(*world.Floats(2), ElementsAre(21, 31, 41, 51));
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2, 3}).ok());
  EXPECT_EQ(world.Arrays(0), 0);
  EXPECT_EQ(world.Arrays(1), 0);
  EXPECT_TRUE(world.session->DestructExecutable(program).ok());
  world.Run();
  EXPECT_EQ(world.impl().num_executables(), 0u);
}

TEST(WaitingPrograms, TheProgramMayGoWhileItsRunsWait) {
  World world(2);
  const Handle program = world.Prepare(Between(true));
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute(program, {1}, {2, 3}).ok());
  EXPECT_TRUE(*world.session->IsDeleted(1));
  EXPECT_TRUE(world.session->DestructExecutable(program).ok());
  world.Run();
  world.functions->Answer();
  EXPECT_THAT(*world.Floats(2), ElementsAre(21, 31, 41, 51));
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2, 3}).ok());
  EXPECT_EQ(world.Arrays(0) + world.Arrays(1), 0);
  EXPECT_EQ(world.impl().num_executables(), 0u);
}

TEST(WaitingPrograms, AFailingFunctionFailsWhatDependsOnIt) {
  World world(2);
  const Handle program = world.Prepare(Between());
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute(program, {1}, {2, 3}).ok());
  world.Run();
  std::move(world.functions->calls[0].done)(absl::InternalError("it raised"));
  const absl::Status status = world.Floats(2).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("it raised [at node 2 of between: test.py:3]"));
  EXPECT_THAT(*world.Floats(3), ElementsAre(2, 3, 4, 5));
  ASSERT_TRUE(world.Execute(program, {1}, {4, 5}).ok());
  world.Run();
  std::move(world.functions->calls[1].done)(std::vector<Bytes>{Bytes::Copy("abc")});
  EXPECT_THAT(std::string(world.Floats(4).status().message()), HasSubstr("3 bytes for f32[4] over 1 device, which has 16"));
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(world.Arrays(0) + world.Arrays(1), 0);
}

// The first branch runs one computation on host 0, the second two on host 1; both give it back on host 0.
Waiting Choosing(bool donated = false) {
  Waiting b("choosing");
  const uint32_t here = b.Sharding({0}), there = b.Sharding({2});
  const uint32_t add = b.Executable(kAdd, {0}), away = b.Executable(kAdd, {2});
  b.Branch(here, {add}, here, here, false);
  b.Branch(here, {away, away}, there, here, true);
  const uint32_t index = b.Index(here), x = b.Arg(here, donated);
  const uint32_t chosen = b.Select(index, {x}, here, {0, 1});
  b.Result(b.Compute(add, {chosen}));
  b.Result(chosen);
  return b;
}

TEST(WaitingPrograms, OnlyTheBranchThatTheIndexNamesIsSent) {
  World world(2);
  const Handle program = world.Prepare(Choosing());
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  Handle next = 10;
  for (int32_t index : {0, 1, -3, 7}) {
    ASSERT_TRUE(world.PutIndex(next, index, 0).ok());
    const uint64_t before = world.Sent(1, Command::kRunProgram);
    ASSERT_TRUE(world.Execute(program, {next, 1}, {next + 1, next + 2}).ok());
    if (index <= 0) EXPECT_THAT(*world.Floats(next + 2), ElementsAre(2, 3, 4, 5));
    if (index > 0) EXPECT_THAT(*world.Floats(next + 2), ElementsAre(3, 4, 5, 6));
    if (index > 0) EXPECT_THAT(*world.Floats(next + 1), ElementsAre(4, 5, 6, 7));
    EXPECT_EQ(world.Sent(1, Command::kRunProgram) - before, index > 0 ? 1u : 0u);
    EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{next, next + 1, next + 2}).ok());
    EXPECT_EQ(world.Arrays(0), 1) << "the argument";
    EXPECT_EQ(world.Arrays(1), 0);
    next += 3;
  }
}

// The index comes late: the client has sent on, and given its argument to a computation that overwrites it.
TEST(WaitingPrograms, WhatTheClientGivesAwayMeanwhileIsStillThereForTheBranch) {
  World world(2);
  const Handle program = world.Prepare(Choosing());
  auto overwrite = world.Load([] {
    Builder b("overwrite");
    const uint32_t x = b.Arg(b.Sharding({0}), true);
    b.Result(b.Compute(b.Executable(kDonate, {0}), {x}));
    return b.proto;
  }());
  ASSERT_TRUE(overwrite.ok());
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  const buffers::ArraySpec scalar{buffers::DType::kS32, {}, buffers::Sharding::SingleDevice(DeviceId(0), "")};
  ASSERT_TRUE(world.session->MakeArray(2, scalar, {HostShard{50, {scalar.dtype, {}, std::nullopt}, {0}}}).ok());
  ASSERT_TRUE(world.Execute(program, {2, 1}, {3, 4}).ok());
  ASSERT_TRUE(world.Execute((*overwrite)->handle, {1}, {5}).ok());
  ASSERT_TRUE(world.Execute((*overwrite)->handle, {3}, {6}).ok()) << "of a result that is not there yet";
  world.Run();
  const int32_t index = 1;
  ASSERT_TRUE(world.session->StoreHostBuffer(50, Bytes::Copy(std::string(reinterpret_cast<const char*>(&index), 4))).ok());
  EXPECT_THAT(*world.Floats(4), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(*world.Floats(5), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(*world.Floats(6), ElementsAre(5, 6, 7, 8));
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2, 3, 4, 5, 6}).ok());
  EXPECT_EQ(world.Arrays(0) + world.Arrays(1), 0);
}

// Two indices come late, one for a choice within the other's branch; the slice goes to the other host before.
TEST(WaitingPrograms, ARunEndsWhereItBeganThoughItsSliceIsMovedMeanwhile) {
  World world(2);
  world.cluster->Spares(world.session->id());
  resource::SliceRequest one;
  one.count = 1;
  const auto slice = world.cluster->AddSlice(world.session->id(), one);
  ASSERT_TRUE(slice.ok()) << slice.status();
  const int device = slice->devices[0].v, host = slice->physical[0].v / 2;
  Waiting b("nested");
  const uint32_t here = b.Sharding({device});
  b.Branch(here, {b.Executable(kAdd, {device})}, here, here, false);
  b.ChoosingBranch(here);
  const uint32_t first = b.Index(here), second = b.Index(here), x = b.Arg(here);
  b.Result(b.Select(first, {second, x}, here, {1}));
  const Handle program = world.Prepare(b);
  ASSERT_TRUE(world.PutFloats(1, On({device}), {1, 2, 3, 4}).ok());
  const buffers::ArraySpec scalar{buffers::DType::kS32, {}, buffers::Sharding::SingleDevice(DeviceId(device), "")};
  for (Handle index : {2, 3}) {
    ASSERT_TRUE(world.session->MakeArray(index, scalar, {HostShard{50 + index, {scalar.dtype, {}, std::nullopt}, {0}}}).ok());
  }
  ASSERT_TRUE(world.Execute(program, {2, 3, 1}, {4}).ok());
  std::optional<absl::StatusOr<controller::DrainReport>> report;
  world.cluster->DrainHost(absl::StrCat("w", host), false, [&](auto answer) { report = std::move(answer); });
  world.Run();
  EXPECT_FALSE(report.has_value()) << "the run has not ended";
  for (Handle index : {2, 3}) {
    ASSERT_TRUE(world.session->StoreHostBuffer(50 + index, Bytes::Copy(std::string(4, '\0'))).ok());
    world.Run();
  }
  ASSERT_TRUE(report.has_value() && report->ok());
  EXPECT_EQ((*report)->moved.size(), 1u);
  EXPECT_THAT(*world.Floats(4), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(world.Arrays(host), 0);
  ASSERT_TRUE(world.Execute(program, {2, 3, 4}, {5}).ok());
  EXPECT_THAT(*world.Floats(5), ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(world.session->Destruct(std::vector<Handle>{1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(world.Arrays(1 - host), 0);
}

TEST(WaitingPrograms, ASessionThatEndsMeanwhileLeavesNothingBehind) {
  World world(2);
  const Handle program = world.Prepare(Between());
  ASSERT_TRUE(world.PutFloats(1, On({0}), {1, 2, 3, 4}).ok());
  ASSERT_TRUE(world.Execute(program, {1}, {2, 3}).ok());
  world.Run();
  ASSERT_EQ(world.functions->calls.size(), 1u);
  world.session = nullptr;
  EXPECT_EQ(world.Arrays(0) + world.Arrays(1), 0);
  world.functions->Answer();
  EXPECT_EQ(world.Arrays(0) + world.Arrays(1), 0);
}

TEST(WaitingPrograms, TypesAndDispatchThatDoNotFitAreRefused) {
  World world(2);
  Waiting b = Choosing();
  b.proto.mutable_branches(1)->mutable_nodes()->rbegin()->mutable_result()->set_input(3);  // left on host 1
  EXPECT_THAT(std::string(world.Load(b.proto).status().message()), HasSubstr("result 0 of branch branch2 is f32[4]"));
  b = Choosing();
  b.proto.mutable_nodes(2)->mutable_select()->set_index(1);
  EXPECT_THAT(std::string(world.Load(b.proto).status().message()), HasSubstr("an index is one s32, not f32[4]"));
  World sequential(2, true);
  EXPECT_EQ(sequential.Load(Choosing().proto).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace pw::programs
