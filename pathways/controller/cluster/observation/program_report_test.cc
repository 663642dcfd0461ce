#include "pathways/controller/cluster/observation/program_report.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns the names of hosts of two devices each.
std::vector<std::string> HostsOfTwo(const std::vector<DeviceId>& devices) {
  std::vector<std::string> hosts;
  for (DeviceId device : devices) {
    const std::string host = absl::StrCat("h", device.v / 2);
    if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
  }
  return hosts;
}

// An argument on devices 0 and 1; a computation there, which takes it twice; a result. Values 0 and 1 are theirs.
program::TypedProgram Squared(int more_arguments = 0) {
  program::TypedProgram typed;
  auto executable = std::make_shared<program::Executable>();
  executable->name = "jit_square";
  executable->devices = {DeviceId(1), DeviceId(2)};
  typed.executables.push_back(executable);
  program::Program& program = typed.program;
  program.name = "step";
  program::Node argument, compute, result;
  argument.spec = std::make_shared<buffers::ArraySpec>(
      buffers::ArraySpec{buffers::DType::kF32, {4}, buffers::Sharding::SingleDevice(DeviceId(0), ""), ""});
  argument.num_outputs = 1;
  compute.kind = program::NodeKind::kCompute;
  compute.executable = 0;
  compute.location = "train.py:12 in loss";
  compute.inputs = {0, 0};
  compute.first_output = 1;
  result.kind = program::NodeKind::kResult;
  result.inputs = {1};
  program.nodes = {argument, compute, result};
  program.producer_of = {0, 1};
  for (int i = 0; i < more_arguments; ++i) program.nodes.push_back(argument);
  return typed;
}

TEST(ProgramReport, HasNodesEdgesAndHosts) {
  const ProgramGraph graph = GraphOf(Squared(), HostsOfTwo);
  EXPECT_EQ(graph.name, "step");
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_STREQ(graph.nodes[0].kind, "argument");
  EXPECT_THAT(graph.nodes[0].inputs, IsEmpty());
  EXPECT_THAT(graph.nodes[0].hosts, ElementsAre("h0"));
  EXPECT_STREQ(graph.nodes[1].kind, "compute");
  EXPECT_EQ(graph.nodes[1].name, "jit_square");
  EXPECT_EQ(graph.nodes[1].devices, 2u);
  EXPECT_THAT(graph.nodes[1].hosts, ElementsAre("h0", "h1"));
  EXPECT_THAT(graph.nodes[1].inputs, ElementsAre(0)) << "an edge for each pair of nodes";
  EXPECT_STREQ(graph.nodes[2].kind, "result");
  EXPECT_THAT(graph.nodes[2].hosts, ElementsAre("h0", "h1")) << "those of the node that makes it";
}

TEST(ProgramReport, AFunctionOnHostsIsANodeOfItsOwnKind) {
  program::TypedProgram typed = Squared();
  typed.program.nodes[1].kind = program::NodeKind::kHostCompute;
  typed.program.nodes[1].function = "load";
  const ProgramGraph graph = GraphOf(typed, HostsOfTwo);
  EXPECT_STREQ(graph.nodes[1].kind, "function");
  EXPECT_EQ(graph.nodes[1].name, "load");
  EXPECT_THAT(graph.nodes[1].hosts, ElementsAre("h0", "h1"));
}

TEST(ProgramReport, ALargeGraphIsCut) {
  const ProgramGraph graph = GraphOf(Squared(1000), HostsOfTwo);
  EXPECT_EQ(graph.num_nodes, 1003u);
  EXPECT_EQ(graph.nodes.size(), ProgramGraph::kMostNodes);
}

TEST(ProgramReport, IsWrittenAsJson) {
  ProgramGraph graph = GraphOf(Squared(), HostsOfTwo);
  graph.session = SessionId(2);
  graph.id = 7;
  graph.nodes.erase(graph.nodes.begin());
  graph.nodes.pop_back();
  EXPECT_EQ(ToJson({graph}, 3),
            "{\"programs\":[{\"client\":2,\"id\":7,\"name\":\"step\",\"num_nodes\":3,\"nodes\":[{\"kind\":\"compute\",\"name\":"
            "\"jit_square\","
            "\"at\":\"train.py:12 in loss\",\"devices\":2,\"hosts\":[\"h0\",\"h1\"],\"inputs\":[0]}]}],\"more\":3}");
}

}  // namespace
}  // namespace pw::controller
