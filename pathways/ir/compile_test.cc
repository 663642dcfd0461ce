// Tests the pipeline as the controller uses it. The passes are tested one by one, on text, in tests/ir.
#include "pathways/ir/compile.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::ir {
namespace {

namespace v1 = ::pathways::v1;
using program::HostStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a topology of hosts with `devices` devices each; every host is an island.
resource::Topology Hosts(int hosts, int devices) {
  resource::Topology topology;
  std::vector<resource::HostDescription> descriptions;
  for (int h = 0; h < hosts; ++h) {
    resource::HostDescription host{absl::StrCat("h", h), absl::StrCat("island", h), "cpu", "test", {}};
    host.devices.assign(devices, resource::DeviceDescription{"cpu", -1, "", "", {{"device", 0}}});
    descriptions.push_back(host);
  }
  EXPECT_TRUE(topology.FormCluster(descriptions).ok());
  return topology;
}

// f on the devices of host 0, then g on those of host 1, without a Transfer between them.
struct Chain {
  explicit Chain(int devices, int64_t wanted = 4096) {
    proto.set_name("step");
    auto* sharding = proto.add_shardings();
    for (int h = 0; h < 2; ++h) {
      auto* executable = proto.add_executables();
      executable->set_num_replicas(1);
      executable->set_num_partitions(devices);
      program::Executable record;
      for (int d = 0; d < devices; ++d) {
        executable->add_devices(h * devices + d);
        record.devices.push_back(DeviceId(h * devices + d));
        if (h == 0) sharding->add_devices(d);
      }
      v1::Compiled compiled;
      compiled.set_name(h == 0 ? "f" : "g");
      AddValue(compiled.add_parameters(), h == 0 ? 4096 : wanted);
      AddValue(compiled.add_outputs(), 4096);
      executables.push_back(*program::CompleteExecutable(record, compiled));
    }
    auto* arg = proto.add_nodes()->mutable_arg();
    arg->set_dtype(11);
    arg->add_dims(4096);
    AddCompute(0, 0, "train.py:3 in loss");
    AddCompute(1, 1, "train.py:9 in loss");
    proto.add_nodes()->mutable_result()->set_input(2);
  }
  static void AddValue(v1::Compiled::Value* value, int64_t dim) {
    value->set_dtype(11);
    value->add_shard_dims(dim);
    value->set_layout("dense");
  }
  void AddCompute(uint32_t executable, uint32_t input, const std::string& location) {
    auto* node = proto.add_nodes();
    node->set_location(location);
    node->mutable_compute()->set_executable(executable);
    node->mutable_compute()->add_inputs(input);
    node->mutable_compute()->set_num_outputs(1);
  }
  program::Program Parsed() const { return *program::ParseProgram(proto.SerializeAsString()); }

  v1::Program proto;
  std::vector<program::ExecutablePtr> executables;
};

TEST(Compile, AnInputThatIsElsewhereIsBrought) {
  const Chain chain(2);
  const program::Program program = chain.Parsed();
  auto portable = ImportProgram(program, chain.executables);
  ASSERT_TRUE(portable.ok()) << portable.status();
  auto steps = LowerProgram(*portable, program, chain.executables, Hosts(2, 2));
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->moves.size(), 1u);
  EXPECT_THAT(steps->moves[0].source_spec->sharding.devices(), ElementsAre(DeviceId(0), DeviceId(1)));
  EXPECT_THAT(steps->moves[0].target_spec->sharding.devices(), ElementsAre(DeviceId(2), DeviceId(3)));
  ASSERT_EQ(steps->programs.size(), 2u);
  std::vector<HostStep::Kind> kinds;
  for (const HostStep& step : steps->programs[1].steps) kinds.push_back(step.kind);
  EXPECT_THAT(kinds, ElementsAre(HostStep::Kind::kMove, HostStep::Kind::kExecute, HostStep::Kind::kRelease));
  EXPECT_EQ(steps->programs[1].steps[0].node, 2) << "a transfer is part of the node that needs it";
  ASSERT_EQ(steps->results.size(), 1u);
  EXPECT_EQ(steps->results[0].maker, 2);
  EXPECT_EQ(steps->results[0].spec->layout, "dense") << "as the executable makes it";
}

TEST(Compile, TypesThatDoNotAgreeAreRefusedNamingTheNodeAndTheLine) {
  const Chain chain(1, 5);
  EXPECT_EQ(ImportProgram(chain.Parsed(), chain.executables).status(),
            absl::InvalidArgumentError(
                "argument 0 of program g is f32[4096] where f32[5] is expected [at node 2 of step: train.py:9 in loss]"));
  Chain two(1);
  two.proto.mutable_nodes(1)->mutable_compute()->add_inputs(0);
  EXPECT_THAT(std::string(ImportProgram(two.Parsed(), two.executables).status().message()),
              HasSubstr("program f takes 1 arguments, not 2 [at node 1 of step: train.py:3 in loss]"));
}

TEST(Compile, TheWorkDoesNotGrowWithTheNumberOfShards) {
  size_t steps_of_few = 0;
  for (int devices : {8, 1024}) {
    const Chain chain(devices);
    const program::Program program = chain.Parsed();
    auto portable = ImportProgram(program, chain.executables);
    ASSERT_TRUE(portable.ok()) << portable.status();
    auto steps = LowerProgram(*portable, program, chain.executables, Hosts(2, devices));
    ASSERT_TRUE(steps.ok()) << steps.status();
    size_t count = 0;
    for (const auto& part : steps->programs) count += part.steps.size();
    if (steps_of_few == 0) steps_of_few = count;
    EXPECT_EQ(count, steps_of_few);
  }
}

TEST(Compile, ThePortableFormHoldsForEveryMapping) {
  const Chain chain(1);
  const program::Program program = chain.Parsed();
  auto portable = ImportProgram(program, chain.executables);
  ASSERT_TRUE(portable.ok()) << portable.status();
  for (int devices : {1, 2}) {  // two hosts, or one
    auto steps = LowerProgram(*portable, program, chain.executables, Hosts(2, devices));
    ASSERT_TRUE(steps.ok()) << steps.status();
    EXPECT_EQ(steps->programs.size(), static_cast<size_t>(3 - devices));
  }
  EXPECT_THAT(PrintProgram(*portable), HasSubstr("pw.program @step"));
  EXPECT_THAT(PrintProgram(*portable), HasSubstr("\"train.py\":9:0"));
}

TEST(Compile, WhatIsNoProgramIsRefused) {
  const Chain chain(1);
  EXPECT_FALSE(LowerProgram("garbage", chain.Parsed(), chain.executables, Hosts(2, 1)).ok());
  EXPECT_FALSE(LowerProgram("module {}", chain.Parsed(), chain.executables, Hosts(2, 1)).ok());
}

}  // namespace
}  // namespace pw::ir
