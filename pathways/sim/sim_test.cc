// Every scenario with several seeds: nothing happens that must not; the same seed does the same; planted bugs are noticed.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/sim/run.h"
#include "pathways/sim/scenario.h"

namespace pw::sim {
namespace {

Scenario Read(const std::string& name) {
  std::ifstream file(absl::StrCat(PW_SCENARIOS, "/", name, ".txt"));
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  auto scenario = ParseScenario(name, text.str());
  EXPECT_TRUE(scenario.ok()) << scenario.status();
  return *scenario;
}

void ExpectClean(const Report& report) {
  EXPECT_TRUE(report.violations.empty()) << report.scenario << " with seed " << report.seed << ":\n  "
                                         << absl::StrJoin(report.violations, "\n  ");
}

class EveryScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScenario, HoldsWithManySeeds) {
  const Scenario scenario = Read(GetParam());
  uint64_t reads = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Report report = RunScenario(scenario, seed);
    ExpectClean(report);
    reads += report.reads;
  }
  EXPECT_GT(reads, 100u);
}

TEST_P(EveryScenario, TheSameSeedDoesTheSame) {
  const Scenario scenario = Read(GetParam());
  const Report a = RunScenario(scenario, 5), b = RunScenario(scenario, 5), c = RunScenario(scenario, 6);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.events, b.events);
  EXPECT_NE(a.hash, c.hash);
}

INSTANTIATE_TEST_SUITE_P(Sim, EveryScenario,
                         ::testing::Values("chain", "pipeline", "tenants", "training", "exchange", "elastic", "controller",
                                           "memory"),
                         [](const auto& info) { return info.param; });

// A hundred small worlds, each with a fault of every kind.
TEST(Sim, AHundredSeedsOfASmallCluster) {
  Scenario scenario = Read("tenants");
  scenario.hosts = 4;
  scenario.hosts_per_island = 2;
  scenario.workloads = {{"mix", 3, {{"operations", 80}}}, {"chain", 1, {{"length", 16}}}};
  for (uint64_t seed = 1; seed <= 100; ++seed) ExpectClean(RunScenario(scenario, seed));
}

// The invariants can fail: a transport that breaks its promises is noticed.
class Planted : public ::testing::TestWithParam<Bug> {};

TEST_P(Planted, IsNoticed) {
  Scenario scenario = Read("tenants");
  scenario.faults.clear();
  scenario.limit = absl::Seconds(20);
  scenario.bug = GetParam();
  scenario.bug_one_in = 40;
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) noticed += RunScenario(scenario, seed).violations.empty() ? 0 : 1;
  EXPECT_EQ(noticed, 4);
}

INSTANTIATE_TEST_SUITE_P(Sim, Planted, ::testing::Values(Bug::kLoseFrame, Bug::kRepeatFrame, Bug::kSwapFrames));

TEST(Sim, LargerClusters) {
  for (const char* name : {"chain", "pipeline", "tenants", "training", "exchange", "elastic"}) {
    Scenario scenario = Read(name);
    scenario.hosts = 128;
    ExpectClean(RunScenario(scenario, 1));
  }
  Scenario scenario = Read("training");
  scenario.hosts = 512;
  ExpectClean(RunScenario(scenario, 1));
}

}  // namespace
}  // namespace pw::sim
