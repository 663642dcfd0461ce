#include "pathways/program/cut.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/program/testing.h"

namespace pw::program {
namespace {

namespace v1 = ::pathways::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Builds programs of scalars on one device, with one executable for each number of results.
class Builder {
 public:
  Builder() {
    proto_.set_name("f");
    proto_.add_shardings()->add_devices(0);
    auto* executable = proto_.add_executables();
    executable->set_num_replicas(1);
    executable->set_num_partitions(1);
    executable->add_devices(0);
    auto* branch = proto_.add_branches();
    branch->set_name("branch");
  }
  uint32_t Arg(bool donated = false) {
    proto_.add_nodes()->mutable_arg()->set_dtype(kF32);
    proto_.mutable_nodes()->rbegin()->mutable_arg()->set_donated(donated);
    return values_++;
  }
  uint32_t Compute(const std::vector<uint32_t>& inputs) {
    auto* compute = proto_.add_nodes()->mutable_compute();
    compute->mutable_inputs()->Add(inputs.begin(), inputs.end());
    compute->set_num_outputs(1);
    return values_++;
  }
  uint32_t HostCall(const std::vector<uint32_t>& inputs) {
    auto* call = proto_.add_nodes()->mutable_host_call();
    call->mutable_inputs()->Add(inputs.begin(), inputs.end());
    call->add_outputs()->set_dtype(kF32);
    return values_++;
  }
  uint32_t Select(uint32_t index, const std::vector<uint32_t>& inputs) {
    auto* select = proto_.add_nodes()->mutable_select();
    select->set_index(index);
    select->mutable_inputs()->Add(inputs.begin(), inputs.end());
    select->add_branches(0);
    select->add_outputs()->set_dtype(kF32);
    return values_++;
  }
  uint32_t Transfer(uint32_t input, uint32_t sharding) {
    auto* transfer = proto_.add_nodes()->mutable_transfer();
    transfer->set_input(input);
    transfer->set_sharding(sharding);
    return values_++;
  }
  void Result(uint32_t value) { proto_.add_nodes()->mutable_result()->set_input(value); }

  v1::Program& proto() { return proto_; }
  Program Parse() const {
    auto program = ParseProgram(proto_.SerializeAsString());
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }

 private:
  v1::Program proto_;
  uint32_t values_ = 0;
};

std::vector<ExecutablePtr> Compiled() {
  auto executable = std::make_shared<Executable>();
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>(1);
  (*specs)[0].dtype = buffers::DType::kF32;
  (*specs)[0].sharding = buffers::Sharding::SingleDevice(DeviceId(0), "");
  executable->output_specs = std::move(specs);
  return {executable};
}

Cut CutOf(const Program& program) {
  CutRoom room;
  auto cut = CutProgram(program, Compiled(), false, room);
  EXPECT_TRUE(cut.ok()) << cut.status();
  return *std::move(cut);
}

TEST(Cut, APartHasTheShardingsAndExecutablesThatItUsesAndNoOthers) {
  Builder b;
  for (int i = 0; i < 100; ++i) b.proto().add_shardings()->add_devices(i % 2);
  const uint32_t moved = b.Transfer(b.Compute({b.Arg()}), 40);
  b.Result(b.Transfer(b.Transfer(b.HostCall({moved}), 51), 51));
  const Cut cut = CutOf(b.Parse());
  ASSERT_EQ(cut.parts.size(), 2u);
  for (int p : {0, 1}) {
    const Program& part = cut.parts[p].program;
    ASSERT_EQ(part.proto->shardings_size(), 1);
    EXPECT_THAT(part.proto->shardings(0).devices(), ElementsAre(p == 0 ? 1 : 0));
    for (const Node& node : part.nodes) {
      if (node.kind == NodeKind::kTransfer) {
        EXPECT_EQ(node.sharding, 0);
      }
    }
  }
  EXPECT_THAT(cut.parts[0].executables, ElementsAre(0));
  EXPECT_THAT(cut.parts[1].executables, IsEmpty());
}

TEST(Cut, AFunctionOnHostsIsAStepBetweenParts) {
  Builder b;
  auto* function = b.proto().add_executables();
  *function = b.proto().executables(0);
  function->set_format(kHostFunctionFormat);
  const uint32_t before = b.Compute({b.Arg()});
  auto* call = b.proto().add_nodes()->mutable_host_compute();
  call->set_executable(1);
  call->add_inputs(before);
  call->add_takes()->set_dtype(kF32);
  call->add_outputs()->set_dtype(kF32);
  const uint32_t made = before + 1;
  b.proto().add_nodes()->mutable_compute()->add_inputs(made);
  b.proto().mutable_nodes()->rbegin()->mutable_compute()->set_num_outputs(1);
  b.Result(made + 1);
  const Cut cut = CutOf(b.Parse());
  ASSERT_EQ(cut.steps.size(), 3u);
  EXPECT_EQ(cut.steps[1].node, 2);
  EXPECT_THAT(cut.steps[1].inputs, ElementsAre(before));
  EXPECT_THAT(cut.steps[1].outputs, ElementsAre(made));
  EXPECT_THAT(cut.steps[2].inputs, ElementsAre(made));
  EXPECT_THAT(cut.parts[1].executables, ElementsAre(0)) << "parts have computations only";
}

TEST(Cut, WhatFeedsAnIndexWhatDoesNotAndWhatComesAfterAreParts) {
  Builder b;
  const uint32_t x = b.Arg(true);                    // node 0
  const uint32_t index = b.Compute({x});             // 1: feeds the index
  const uint32_t apart = b.Compute({x});             // 2: independent of the index
  const uint32_t chosen = b.Select(index, {x});      // 3
  const uint32_t both = b.Compute({chosen, apart});  // 4: depends on the Select
  b.Result(both);
  b.Result(chosen);
  const Program program = b.Parse();
  const Cut cut = CutOf(program);
  ASSERT_EQ(cut.steps.size(), 4u);
  EXPECT_THAT(cut.steps[0].outputs, ElementsAre(index));
  EXPECT_THAT(cut.steps[1].outputs, ElementsAre(apart));
  EXPECT_EQ(cut.steps[2].node, 3);
  EXPECT_THAT(cut.steps[2].inputs, ElementsAre(index, x));
  EXPECT_THAT(cut.steps[3].inputs, ElementsAre(apart, chosen));
  EXPECT_THAT(cut.steps[3].results, ElementsAre(0, 1));
  const Program& last = cut.parts[cut.steps[3].part].program;
  EXPECT_EQ(last.Describe(2), "node 4 of f");
  EXPECT_TRUE(last.nodes[0].donated) << "nobody else takes the second computation's value";
  EXPECT_FALSE(cut.parts[0].program.nodes[0].donated) << "others take the argument";
  CutRoom room;
  auto branch = CutProgram(program, Compiled(), true, room);
  ASSERT_TRUE(branch.ok());
  EXPECT_FALSE(branch->parts[cut.steps[3].part].program.nodes[0].donated) << "CU-3";
}

TEST(Cut, AProgramWithoutSuchNodesIsOnePart) {
  Builder b;
  const uint32_t x = b.Arg();
  b.Result(b.Compute({b.Compute({x})}));
  const Cut cut = CutOf(b.Parse());
  ASSERT_EQ(cut.steps.size(), 1u);
  EXPECT_THAT(cut.steps[0].outputs, IsEmpty());
  EXPECT_EQ(cut.parts[0].program.nodes.size(), 4u);
}

TEST(Cut, WhatHostsCannotDoIsRefusedNamingTheNode) {
  const auto refused = [](const v1::Program& proto) {
    return std::string(ParseProgram(proto.SerializeAsString()).status().message());
  };
  Builder b;
  const uint32_t x = b.Arg();
  b.Select(x, {x});
  b.proto().mutable_nodes(1)->mutable_select()->set_branches(0, 1);
  EXPECT_THAT(refused(b.proto()), HasSubstr("there is no branch 1 that it may use [at node 1 of f]"));
  b.proto().mutable_nodes(1)->mutable_select()->clear_branches();
  EXPECT_THAT(refused(b.proto()), HasSubstr("there is nothing to choose from"));
  *b.proto().mutable_branches(0)->add_nodes()->mutable_arg() = b.proto().nodes(0).arg();
  b.proto().mutable_branches(0)->add_nodes()->mutable_select()->add_branches(0);
  EXPECT_THAT(refused(b.proto()), HasSubstr("there is no branch 0 that it may use [at node 1 of branch]"))
      << "branches do not call themselves";
  Builder many;
  const uint32_t y = many.Arg();
  for (int i = 0; i <= kMaxWaiting; ++i) many.HostCall({y});
  EXPECT_THAT(refused(many.proto()), HasSubstr("at most 1024 nodes that wait for values"));
}

// CU-4: each part has a list of devices.
TEST(Cut, PartsThatTakeTooMuchAreRefused) {
  Builder b;
  for (int d = 1; d < 1000; ++d) b.proto().mutable_shardings(0)->add_devices(d);
  uint32_t x = b.Arg();
  for (int i = 0; i < 20; ++i) x = b.Transfer(b.HostCall({b.Transfer(x, 0)}), 0);
  b.Result(x);
  const Program program = b.Parse();
  const CutRoom all;
  CutRoom left;
  ASSERT_TRUE(CutProgram(program, Compiled(), false, left).ok());
  const CutRoom taken{.parts = all.parts - left.parts, .bytes = all.bytes - left.bytes};
  EXPECT_EQ(taken.parts, 21);
  EXPECT_GT(taken.bytes, 21 * 4000);
  CutRoom enough = taken, too_few{.parts = taken.parts - 1}, too_little{.bytes = taken.bytes - 1};
  EXPECT_TRUE(CutProgram(program, Compiled(), false, enough).ok());
  EXPECT_EQ(CutProgram(program, Compiled(), false, too_few).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CutProgram(program, Compiled(), false, too_little).status().code(), absl::StatusCode::kResourceExhausted);
}

// CU-4: each pair of HostCalls on which a node depends makes a part.
TEST(Cut, MorePartsThanPeopleWriteAreRefused) {
  Builder b;
  std::vector<uint32_t> waiting;
  const uint32_t x = b.Arg();
  for (int i = 0; i < kMaxWaiting; ++i) waiting.push_back(b.HostCall({x}));
  for (int i = 0; i <= 8 * kMaxWaiting; ++i) {
    const int step = 1 + i / kMaxWaiting;
    b.Result(b.Compute({waiting[i % kMaxWaiting], waiting[(i + step) % kMaxWaiting]}));
  }
  CutRoom room;
  const absl::Status refused = CutProgram(b.Parse(), Compiled(), false, room).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("program f falls into more than 8192 parts"));
}

// In random programs every node is in one step, steps could run in their order, and inputs are outputs of earlier steps.
TEST(Cut, RandomProgramsAreCutIntoStepsThatCouldRun) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    Builder b;
    std::vector<uint32_t> values = {b.Arg(), b.Arg(true)};
    const size_t nodes = 1 + below(20);
    for (size_t n = 0; n < nodes; ++n) {
      const uint32_t x = values[below(values.size())], y = values[below(values.size())];
      const uint64_t kind = below(5);
      values.push_back(kind == 0 ? b.HostCall({x, y}) : kind == 1 ? b.Select(x, {y}) : b.Compute({x, y}));
    }
    for (int r = 0; r < 3; ++r) b.Result(values[below(values.size())]);
    const Program program = b.Parse();
    const Cut cut = CutOf(program);
    std::set<int> there = {0, 1};
    std::multiset<int> seen;
    std::set<int> results;
    for (const Step& step : cut.steps) {
      for (int input : step.inputs) EXPECT_TRUE(there.contains(input)) << "seed " << seed;
      there.insert(step.outputs.begin(), step.outputs.end());
      results.insert(step.results.begin(), step.results.end());
      if (step.part < 0) {
        seen.insert(step.node);
        continue;
      }
      const Program& part = cut.parts[step.part].program;
      EXPECT_EQ(part.args.size(), step.inputs.size());
      EXPECT_EQ(part.results.size(), step.outputs.size() + step.results.size());
      for (size_t n = 0; n < part.nodes.size(); ++n) {
        for (int input : part.nodes[n].inputs) EXPECT_LT(part.producer_of[input], static_cast<int>(n));
        if (part.nodes[n].kind == NodeKind::kCompute) seen.insert(part.nodes[n].number);
      }
    }
    EXPECT_EQ(results.size(), 3u) << "seed " << seed;
    for (size_t n = 2; n < program.nodes.size() - 3; ++n)
      EXPECT_EQ(seen.count(static_cast<int>(n)), 1u) << "seed " << seed << " node " << n;
  }
}

}  // namespace
}  // namespace pw::program
