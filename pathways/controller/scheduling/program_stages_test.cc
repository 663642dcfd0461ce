#include "pathways/controller/scheduling/program_stages.h"

#include <map>
#include <numeric>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

// An argument and a chain of `computes` Compute nodes over hosts 0, 1, ... in turn, with one device each. A Move is in front of
// each Compute node but the first.
class ProgramStagesTest : public ::testing::Test {
 protected:
  void Make(int computes, int hosts) {
    lowered.hosts.resize(static_cast<size_t>(hosts));
    for (int h = 0; h < hosts; ++h) {
      auto executable = std::make_shared<program::Executable>();
      executable->physical = {DeviceId(h)};
      executable->hosts = {HostId(static_cast<uint32_t>(h))};
      typed.executables.push_back(executable);
      lowered.hosts[static_cast<size_t>(h)].host = HostId(static_cast<uint32_t>(h));
    }
    AddNode(program::NodeKind::kArg, -1);
    for (int i = 0; i < computes; ++i) {
      const int here = i % hosts, before = (i + hosts - 1) % hosts;
      if (i > 0) {
        AddNode(program::NodeKind::kTransfer, -1);
        AddCommand(before, false);
        if (here != before) AddCommand(here, false);
      }
      AddNode(program::NodeKind::kCompute, here);
      AddCommand(here, true);
    }
    stages.emplace(&typed, &lowered, 5 * kMs, kMs);
  }
  void AddNode(program::NodeKind kind, int executable) {
    program::Node node;
    node.kind = kind;
    node.executable = executable;
    typed.program.nodes.push_back(node);
  }
  void AddCommand(int host, bool execute) {
    dispatch::LoweredHost& part = lowered.hosts[static_cast<size_t>(host)];
    auto& command = part.commands.emplace_back();
    if (execute)
      command.mutable_execute();
    else
      command.mutable_move();
    part.node_of.push_back(static_cast<int>(typed.program.nodes.size()) - 1);
  }
  // Returns the number of Compute nodes of each stage.
  std::vector<int> Plan() {
    auto predict = [this](ExecutableId id) { return costs.contains(id) ? costs.at(id) : -1; };
    const auto& planned = stages->Plan({predict, [this] { return ExecutableId(++ids); }});
    std::vector<int> nodes;
    for (const ProgramStage& stage : planned) nodes.push_back(stage.nodes);
    return nodes;
  }
  // Sets the measured duration of each node.
  void Measure(int64_t node_ns) {
    for (const ProgramStage& stage : stages->planned()) costs[stage.id] = node_ns * stage.nodes;
  }

  program::TypedProgram typed;
  dispatch::LoweredProgram lowered;
  std::optional<ProgramStages> stages;
  std::map<ExecutableId, int64_t> costs;
  uint64_t ids = 0;
};

TEST_F(ProgramStagesTest, AShortProgramIsOneStage) {
  Make(3, 1);
  EXPECT_THAT(Plan(), ElementsAre(3));
  Measure(10'000);
  EXPECT_THAT(Plan(), ElementsAre(3));
  EXPECT_EQ(ids, 1u);
}

TEST_F(ProgramStagesTest, ALongOneIsCutByWhatIsExpectedAndAnewByWhatIsMeasured) {
  Make(128, 1);
  EXPECT_THAT(Plan(), testing::SizeIs(26));  // 5 ms of nodes of 1 ms each
  Measure(20'000);
  EXPECT_THAT(Plan(), ElementsAre(128));  // 2.6 ms together
  Measure(500'000);
  EXPECT_THAT(Plan(), testing::SizeIs(13));
  Measure(30 * kMs);
  EXPECT_THAT(Plan(), testing::AllOf(testing::SizeIs(128), Each(1)));
  Measure(60 * kMs);
  EXPECT_THAT(Plan(), testing::SizeIs(128)) << "a node cannot be cut";
}

TEST_F(ProgramStagesTest, APlanIsKeptWhileItIsNearlyRight) {
  Make(40, 1);
  Plan();
  Measure(kMs);
  const std::vector<int> first = Plan();
  for (int64_t node_ns : {1'500'000, 800'000, 1'900'000, 600'000}) {
    Measure(node_ns);
    EXPECT_EQ(Plan(), first) << node_ns;
  }
  EXPECT_EQ(ids, first.size());
  EXPECT_EQ(stages->ids().size(), ids);
}

TEST_F(ProgramStagesTest, EachHostsExecutesAreCutWhereTheNodesAre) {
  Make(12, 3);
  const std::vector<int> nodes = Plan();
  EXPECT_EQ(std::accumulate(nodes.begin(), nodes.end(), 0), 12);
  ASSERT_EQ(nodes, (std::vector<int>{5, 5, 2}));
  const auto& planned = stages->planned();
  EXPECT_THAT(planned[0].hosts, ElementsAre(HostId(0), HostId(1), HostId(2)));
  EXPECT_THAT(planned[2].hosts, ElementsAre(HostId(1), HostId(2)));
  EXPECT_THAT(planned[2].devices, ElementsAre(DeviceId(1), DeviceId(2)));
  for (size_t h = 0; h < 3; ++h) {
    uint32_t executes = 0;
    for (const ProgramStage& stage : planned) executes += stage.executes[h];
    EXPECT_EQ(executes, 4u);
  }
}

TEST_F(ProgramStagesTest, AProgramThatComputesNothingHasNoStages) {
  typed.program.nodes.resize(2);
  stages.emplace(&typed, &lowered, 5 * kMs, kMs);
  EXPECT_TRUE(Plan().empty());
}

}  // namespace
}  // namespace pw::controller
