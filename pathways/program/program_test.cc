#include "pathways/program/program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/program/command_template.h"
#include "pathways/program/testing.h"

namespace pw::program {
namespace {

namespace v1 = ::pathways::v1;
using ::testing::HasSubstr;

// A chain on two devices: arg -> f -> transfer -> g -> result.
v1::Program Chain() {
  v1::Program p;
  p.set_name("step");
  for (int d = 0; d < 2; ++d) {
    p.add_shardings()->add_devices(d);
    auto* e = p.add_executables();
    e->set_num_replicas(1);
    e->set_num_partitions(1);
    e->add_devices(d);
  }
  auto* arg = p.add_nodes();
  arg->mutable_arg()->set_dtype(kF32);
  arg->mutable_arg()->add_dims(4);
  auto compute = [&](int executable, uint32_t input, const std::string& location) {
    auto* node = p.add_nodes();
    node->set_location(location);
    node->mutable_compute()->set_executable(executable);
    node->mutable_compute()->add_inputs(input);
    node->mutable_compute()->set_num_outputs(1);
  };
  compute(0, 0, "train.py:3 in f");
  auto* transfer = p.add_nodes();
  transfer->mutable_transfer()->set_input(1);
  transfer->mutable_transfer()->set_sharding(1);
  compute(1, 2, "train.py:9 in g");
  p.add_nodes()->mutable_result()->set_input(3);
  return p;
}

absl::StatusOr<Program> Parse(const v1::Program& proto) { return ParseProgram(proto.SerializeAsString()); }

TEST(Program, IsReadFromItsBytes) {
  auto program = Parse(Chain());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->nodes.size(), 5u);
  EXPECT_EQ(program->producer_of, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(program->args, std::vector<int>{0});
  EXPECT_EQ(program->results, std::vector<int>{4});
  EXPECT_EQ(program->Describe(3), "node 3 of step: train.py:9 in g");
}

void ExpectRefused(const v1::Program& proto, const std::string& what) {
  const auto program = Parse(proto);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(program.status().message()), HasSubstr(what));
}

TEST(Program, WhatCannotRunIsRefusedNamingTheNodeAndItsPlace) {
  v1::Program p = Chain();
  p.mutable_nodes(1)->mutable_compute()->set_inputs(0, 3);  // f needs what g makes
  ExpectRefused(p, "no cycles [at node 1 of step: train.py:3 in f]");
  p = Chain();
  p.mutable_nodes(3)->mutable_compute()->set_executable(2);
  ExpectRefused(p, "there is no executable 2; the program has 2 [at node 3 of step: train.py:9 in g]");
  p = Chain();
  p.mutable_nodes(2)->mutable_transfer()->set_sharding(9);
  ExpectRefused(p, "there is no sharding 9 [at node 2 of step]");
  p = Chain();
  p.mutable_nodes(0)->mutable_arg()->set_dtype(1000);
  ExpectRefused(p, "[at node 0 of step]");
  p = Chain();
  p.mutable_nodes(0)->mutable_arg()->add_dims(int64_t{1} << 62);
  ExpectRefused(p, "[at node 0 of step]");
  p = Chain();
  p.mutable_nodes(1)->mutable_compute()->set_num_outputs(0xFFFFFFFF);
  ExpectRefused(p, "a program has at most");
  p = Chain();
  p.mutable_nodes(1)->clear_kind();
  ExpectRefused(p, "of no known kind");
  p = Chain();
  p.mutable_executables(0)->set_num_partitions(3);
  ExpectRefused(p, "executable 0 of program step has 1 replicas and 3 partitions on 1 devices");
  p = Chain();
  p.mutable_shardings(0)->clear_devices();
  ExpectRefused(p, "its sharding has no devices [at node 0 of step]");
  EXPECT_FALSE(ParseProgram("\xff\xff garbage").ok());
}

// The chain with a Python function in the place of g.
v1::Program WithFunction() {
  v1::Program p = Chain();
  p.mutable_executables(1)->set_format(kHostFunctionFormat);
  auto* call = p.mutable_nodes(3)->mutable_host_compute();
  call->set_executable(1);
  call->add_inputs(2);
  call->set_function("g");
  for (auto* type : {call->add_takes(), call->add_outputs()}) {
    type->set_dtype(kF32);
    type->add_dims(4);
    type->set_sharding(1);
  }
  return p;
}

TEST(Program, AFunctionOnHostsIsANodeThatWaits) {
  const auto program = Parse(WithFunction());
  ASSERT_TRUE(program.ok()) << program.status();
  const Node& node = program->nodes[3];
  EXPECT_EQ(node.kind, NodeKind::kHostCompute);
  EXPECT_TRUE(node.waits());
  EXPECT_EQ(node.executable, 1);
  EXPECT_EQ(node.function, "g");
  EXPECT_EQ(node.takes[0]->sharding.devices(), std::vector<DeviceId>{DeviceId(1)});
  EXPECT_EQ(node.outputs[0]->dims, buffers::Dims{4});
}

// While the first argument is true, the turn replaces the second one.
v1::Program Loop() {
  v1::Program p = Chain();
  p.clear_nodes();
  const auto set_type = [](auto* type, int dtype) {
    type->set_dtype(dtype);
    if (dtype == kF32) type->add_dims(4);
  };
  auto* turn = p.add_branches();
  turn->set_name("turn");
  set_type(turn->add_nodes()->mutable_arg(), kF32);
  turn->add_nodes()->mutable_compute()->add_inputs(0);
  turn->mutable_nodes(1)->mutable_compute()->set_num_outputs(2);
  turn->add_nodes()->mutable_result()->set_input(1);
  turn->add_nodes()->mutable_result()->set_input(2);
  set_type(p.add_nodes()->mutable_arg(), 1);
  set_type(p.add_nodes()->mutable_arg(), kF32);
  auto* loop = p.add_nodes();
  loop->set_location("train.py:5 in f");
  loop->mutable_while_loop()->add_inputs(1);
  set_type(loop->mutable_while_loop()->add_outputs(), kF32);
  p.add_nodes()->mutable_result()->set_input(2);
  return p;
}

TEST(Program, ALoopIsANodeThatWaits) {
  const auto program = Parse(Loop());
  ASSERT_TRUE(program.ok()) << program.status();
  const Node& loop = program->nodes[2];
  EXPECT_EQ(loop.kind, NodeKind::kWhile);
  EXPECT_TRUE(loop.waits());
  EXPECT_EQ(loop.inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(loop.branches, std::vector<int>{0});
  EXPECT_EQ(loop.constants(), 0);
}

TEST(Program, LoopsThatMakeNoSenseAreRefused) {
  v1::Program proto = Loop();
  proto.mutable_nodes(2)->mutable_while_loop()->set_turn(1);
  ExpectRefused(proto, "there is no branch 1 that could be its turn [at node 2 of step: train.py:5 in f]");
  proto = Loop();
  *proto.mutable_nodes(2)->mutable_while_loop()->add_outputs() = proto.nodes(2).while_loop().outputs(0);
  ExpectRefused(proto, "a loop with 1 inputs carries 2 arrays");
  proto = Loop();
  proto.mutable_nodes(2)->mutable_while_loop()->set_predicate(7);
  ExpectRefused(proto, "it uses value 7");
  proto = Loop();
  proto.mutable_nodes(2)->mutable_while_loop()->set_inputs(0, 7);
  ExpectRefused(proto, "it uses value 7");
}

TEST(Program, FunctionsAndComputationsAreNotTakenForEachOther) {
  v1::Program p = WithFunction();
  p.mutable_nodes(1)->mutable_compute()->set_executable(1);
  ExpectRefused(p, "executable 1 is a Python function, which only a HostCompute calls [at node 1 of step");
  p = WithFunction();
  p.mutable_nodes(3)->mutable_host_compute()->set_executable(0);
  ExpectRefused(p, "executable 0 is no Python function [at node 3 of step");
  p = WithFunction();
  p.mutable_nodes(3)->mutable_host_compute()->clear_takes();
  ExpectRefused(p, "a Python function has 1 inputs and 0 types of inputs");
  p = WithFunction();
  auto* again = p.add_nodes();
  *again->mutable_host_compute() = p.nodes(3).host_compute();
  EXPECT_TRUE(Parse(p).ok());
  again->mutable_host_compute()->mutable_outputs(0)->set_dims(0, 5);
  ExpectRefused(p, "the Python function g is called with other types than by another node [at node 5 of step]");
}

TEST(Program, NodesShareShardings) {
  v1::Program p = Chain();
  p.clear_nodes();
  for (int i = 0; i < 3; ++i) p.add_nodes()->mutable_arg()->set_dtype(11);
  const auto program = ParseProgram(p.SerializeAsString());
  ASSERT_TRUE(program.ok()) << program.status();
  for (const Node& node : program->nodes) EXPECT_EQ(&node.spec->sharding.devices(), &program->nodes[0].spec->sharding.devices());
}

// A sharding of many devices is small on the wire, but is expanded once for each rank of arrays that use it.
TEST(Program, WhatAClientCanMultiplyIsBounded) {
  v1::Program branches = Chain();
  for (int i = 0; i <= kMaxBranches; ++i) branches.add_branches();
  ExpectRefused(branches, "at most 2048 branches");
  v1::Program shards = Chain();
  for (int d = 1; d < 1 << 20; ++d) shards.mutable_shardings(0)->add_devices(d);
  for (int rank = 0; rank <= 16; ++rank) {
    auto* arg = shards.add_nodes()->mutable_arg();
    arg->set_dtype(kF32);
    for (int d = 0; d < rank; ++d) arg->add_dims(1);
  }
  ExpectRefused(shards, "at most 16777216 shards");
}

TEST(Program, AnErrorIsMarkedOnce) {
  const absl::Status inner = WithLocation(absl::InternalError("boom"), "node 1 of f");
  EXPECT_EQ(WithLocation(inner, "node 2 of f"), inner);
  EXPECT_EQ(inner.message(), "boom [at node 1 of f]");
  EXPECT_TRUE(WithLocation(absl::OkStatus(), "x").ok());
}

TEST(CommandTemplate, SlotsAreFilledAndNothingElseIsTouched) {
  v1::Command command;
  auto* execute = command.mutable_execute();
  execute->set_executable(5);
  execute->add_args(Slot(SlotKind::kArgument, 1));
  execute->add_args(Slot(SlotKind::kName, 2));
  execute->add_results(Slot(SlotKind::kResult, 0));
  execute->set_launch(Slot(SlotKind::kName, 3));
  const std::vector<uint64_t> args = {100, 101}, results = {200};
  EXPECT_TRUE(CheckTemplate(command, 2, 1).ok());
  EXPECT_FALSE(CheckTemplate(command, 1, 1).ok());
  EXPECT_FALSE(CheckTemplate(command, 2, 0).ok());
  v1::Command out = command;
  for (uint64_t base : {1000, 2000}) {
    Bind(command, {args, results, base, 50, 7}, 9, &out);
    EXPECT_EQ(out.execute().args(0), 101u);
    EXPECT_EQ(out.execute().args(1), base + 2 * RequestName::kStep);
    EXPECT_EQ(out.execute().launch(), 53u);
    EXPECT_EQ(out.execute().results(0), 200u);
    EXPECT_EQ(out.execute().executable(), 5u);
    EXPECT_EQ(out.execute().session(), 7u);
    EXPECT_EQ(out.execute().op(), 9u);
  }
}

TEST(CommandTemplate, AMoveKeepsItsLocalPiecesWithoutTransferNames) {
  v1::Command command;
  auto* receive = command.mutable_move()->add_receives();
  receive->set_array(Slot(SlotKind::kName, 0));
  receive->add_pieces()->set_source_array(Slot(SlotKind::kArgument, 0));
  receive->add_pieces()->set_transfer(Slot(SlotKind::kName, 1));
  const std::vector<uint64_t> args = {100};
  v1::Command out = command;
  Bind(command, {args, {}, 1000, 0, 7}, 9, &out);
  EXPECT_EQ(out.move().receives(0).array(), 1000u);
  EXPECT_EQ(out.move().receives(0).pieces(0).source_array(), 100u);
  EXPECT_EQ(out.move().receives(0).pieces(0).transfer(), 0u);
  EXPECT_EQ(out.move().receives(0).pieces(1).transfer(), 1000 + RequestName::kStep);
  EXPECT_EQ(out.move().receives(0).pieces(1).source_array(), 0u);
}

TEST(CommandTemplate, OnlyCommandsThatMakeOrDropArraysBelongInPrograms) {
  v1::Command command;
  command.mutable_shutdown();
  EXPECT_FALSE(CheckTemplate(command, 0, 0).ok());
}

}  // namespace
}  // namespace pw::program
