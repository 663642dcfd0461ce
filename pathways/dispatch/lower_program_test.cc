// Tests each host's commands. Whole programs are tested with real workers in tests/programs.
#include "pathways/dispatch/lower_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/graph/graph_part.h"
#include "pathways/dispatch/testing/test_topology.h"
#include "pathways/ir/compile.h"
#include "pathways/program/command_template.h"

namespace pw::dispatch {
namespace {

namespace v1 = ::pathways::v1;
using program::Slot;
using program::SlotKind;
using ::testing::ElementsAre;

// Lowers arg -> f (on the devices of host 0; `times` one after another) -> transfer to host 1 -> result. The argument is a result too.
absl::StatusOr<LoweredProgram> LowerTwoHosts(int devices, uint32_t times = 1, const std::string& location = "") {
  v1::Program p;
  p.set_name("step");
  auto* e = p.add_executables();
  e->set_num_replicas(1);
  e->set_num_partitions(devices);
  for (int h = 0; h < 2; ++h) {
    auto* sharding = p.add_shardings();
    for (int d = 0; d < devices; ++d) sharding->add_devices(h * devices + d);
  }
  program::Executable record;
  for (int d = 0; d < devices; ++d) e->add_devices(d), record.devices.push_back(DeviceId(d));
  record.id = ExecutableId(7);
  record.hosts = {HostId(0)};
  v1::Compiled compiled;
  for (auto* value : {compiled.add_parameters(), compiled.add_outputs()}) value->set_dtype(11), value->add_shard_dims(4);
  p.add_nodes()->mutable_arg()->set_dtype(11);
  p.mutable_nodes(0)->mutable_arg()->add_dims(4);
  for (uint32_t i = 0; i < times; ++i) {
    auto* node = p.add_nodes();
    node->set_location(location);
    node->mutable_compute()->add_inputs(i);
    node->mutable_compute()->set_num_outputs(1);
  }
  auto* transfer = p.add_nodes()->mutable_transfer();
  transfer->set_input(times);
  transfer->set_sharding(1);
  p.add_nodes()->mutable_result()->set_input(times + 1);
  p.add_nodes()->mutable_result()->set_input(0);
  auto program = program::ParseProgram(p.SerializeAsString());
  EXPECT_TRUE(program.ok()) << program.status();
  const std::vector<program::ExecutablePtr> executables = {*program::CompleteExecutable(record, compiled)};
  const resource::Topology topology = TestTopology(2, devices);
  auto portable = ir::ImportProgram(*program, executables);
  EXPECT_TRUE(portable.ok()) << portable.status();
  auto steps = ir::LowerProgram(*portable, *program, executables, topology);
  EXPECT_TRUE(steps.ok()) << steps.status();
  return LowerProgram(*steps, *program, executables, topology);
}

TEST(LowerProgram, EachHostGetsItsCommandsWithSlotsForNames) {
  auto lowered = LowerTwoHosts(1);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  ASSERT_EQ(lowered->hosts.size(), 2u);
  EXPECT_EQ(lowered->arrays, 1u);
  const LoweredHost &h0 = lowered->hosts[0], &h1 = lowered->hosts[1];
  ASSERT_EQ(h0.commands.size(), 4u);  // execute, send, release, alias of the argument that is a result
  EXPECT_THAT(h0.node_of, ElementsAre(1, 2, 2, 4));
  const uint64_t between = h0.commands[0].execute().results(0);
  EXPECT_EQ(h0.commands[0].execute().executable(), 7u);
  EXPECT_EQ(h0.commands[0].execute().args(0), Slot(SlotKind::kArgument, 0));
  EXPECT_TRUE(program::IsSlot(between, SlotKind::kName));
  EXPECT_EQ(h0.commands[1].move().sends(0).array(), between);
  EXPECT_THAT(h0.commands[2].release().arrays(), ElementsAre(between));
  EXPECT_EQ(h0.commands[3].alias().items(0).array(), Slot(SlotKind::kResult, 0)) << "the host's first, the program's second";
  EXPECT_THAT(h0.results, ElementsAre(1u));
  ASSERT_EQ(h1.commands.size(), 1u);
  EXPECT_EQ(h1.commands[0].move().receives(0).array(), Slot(SlotKind::kResult, 0));
  EXPECT_EQ(h1.commands[0].move().receives(0).pieces(0).transfer(), h0.commands[1].move().sends(0).transfer());
  EXPECT_THAT(h1.args, ElementsAre());
  EXPECT_THAT(h1.results, ElementsAre(0u));
  EXPECT_THAT(lowered->result_makers, ElementsAre(2, 0));
}

// The commands again, as a host gets them.
TEST(LowerProgram, EachNodeThatTakesCommandsIsANodeOfTheGraph) {
  auto lowered = LowerTwoHosts(1);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const dataflow::Graph& graph = *lowered->graph;
  std::vector<std::string> names;
  for (const dataflow::Node& node : graph.nodes()) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("node 1 of step", "node 2 of step", "node 4 of step"));
  EXPECT_EQ(graph.node(dataflow::NodeId(0)).placement->num_shards(), 1u);
  EXPECT_EQ(graph.node(dataflow::NodeId(1)).placement->num_shards(), 2u) << "a sender and a receiver";
  EXPECT_EQ(graph.host_loss(), dataflow::HostLoss::kConcernsNobody);
  for (const LoweredHost& host : lowered->hosts) {
    size_t at = 0;
    const auto part = dataflow::PartOf(graph, host.host);
    for (const auto& [id, node] : part->nodes()) {
      EXPECT_EQ(node.op, program::kNodeOperator);
      v1::NodeCommands commands;
      ASSERT_TRUE(commands.ParseFromString(node.config));
      for (v1::Command& command : *commands.mutable_commands()) {
        ASSERT_LT(at, host.commands.size());
        program::SetLocation(command.has_execute() || command.has_move() ? node.name : "", &command);
        EXPECT_EQ(command.SerializeAsString(), host.commands[at++].SerializeAsString());
      }
    }
    EXPECT_EQ(at, host.commands.size());
  }
}

TEST(LowerProgram, AHostsCommandsFitIntoOneFrame) {
  const auto lowered = LowerTwoHosts(1, 10000, std::string(1000, 'x'));
  EXPECT_EQ(lowered.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(lowered.status().message(),
              ::testing::HasSubstr("the commands of program step for one host take 10 MB; the limit is 8"));
  EXPECT_TRUE(LowerTwoHosts(1, 5000, std::string(1000, 'x')).ok());
}

TEST(LowerProgram, ExecutesDoNotGrowWithTheNumberOfShards) {
  for (int devices : {1, 8, 256}) {
    auto lowered = LowerTwoHosts(devices);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    int executes = 0;
    for (const auto& command : lowered->hosts[0].commands) executes += command.has_execute();
    EXPECT_EQ(executes, 1);
  }
}

}  // namespace
}  // namespace pw::dispatch
