// Runs every scenario with several seeds: invariants hold, runs are deterministic, planted bugs are detected.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/sim/referee.h"
#include "pathways/sim/run.h"
#include "pathways/sim/scenario.h"
#include "pathways/sim/world.h"
#include "pathways/worker/execute/program_executor.h"

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

// Runs the scenario with seeds 1 to `last`, expects each to hold, and returns the number of reads.
uint64_t ReadsOfSeeds(const Scenario& scenario, uint64_t last) {
  uint64_t reads = 0;
  for (uint64_t seed = 1; seed <= last; ++seed) {
    const Report report = RunScenario(scenario, seed);
    ExpectClean(report);
    reads += report.reads;
  }
  return reads;
}

class EveryScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryScenario, HoldsWithManySeeds) {
  const Scenario scenario = Read(GetParam());
  EXPECT_GT(ReadsOfSeeds(scenario, 12), 100u);
}

// A quarter of the hosts and of the work, with all faults; `make sim` runs a hundred seeds of the whole.
TEST_P(EveryScenario, HoldsInSmallWithAHundredSeeds) {
  Scenario scenario = Read(GetParam());
  scenario.hosts = 4;
  scenario.hosts_per_island = 2;
  for (WorkloadSpec& spec : scenario.workloads) {
    for (const char* much : {"repeat", "operations", "rounds", "steps", "batches"}) {
      const auto number = spec.numbers.find(much);
      if (number != spec.numbers.end()) number->second = (number->second + 3) / 4;
    }
    if (spec.kind == "pipeline") spec.numbers["stages"] = 4;
  }
  EXPECT_GT(ReadsOfSeeds(scenario, 100), 100u);
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
                                           "memory", "wide", "links", "unlinked", "severed", "repeats", "returns", "handover"),
                         [](const auto& info) { return info.param; });

// A hundred small clusters, each with a fault of every kind.
TEST(Sim, AHundredSeedsOfASmallCluster) {
  Scenario scenario = Read("tenants");
  scenario.hosts = 4;
  scenario.hosts_per_island = 2;
  scenario.workloads = {{"mix", 3, {{"operations", 80}}}, {"chain", 1, {{"length", 16}}}};
  for (uint64_t seed = 1; seed <= 100; ++seed) ExpectClean(RunScenario(scenario, seed));
}

// The invariants can fail: a broken transport is detected.
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

INSTANTIATE_TEST_SUITE_P(Sim, Planted,
                         ::testing::Values(Bug::kLoseFrame, Bug::kRepeatFrame, Bug::kSwapFrames, Bug::kDamageFrame));

// Together these bugs break each invariant: values, untouched hosts, answers, leftovers. Which one a seed breaks depends on the frames that
// it hits.
TEST(PlantedBugs, BreakEveryInvariantThatATransportCan) {
  std::set<std::string> left = {"and should hold", "and nothing had happened to it", "has not finished",
                                "after the last session has ended"};
  for (uint64_t seed = 1; seed <= 40 && !left.empty(); ++seed) {
    for (Bug bug : {Bug::kLoseFrame, Bug::kSwapFrames, Bug::kDamageFrame}) {
      Scenario scenario = Read("tenants");
      scenario.faults.clear();
      scenario.limit = absl::Seconds(20);
      scenario.bug = bug;
      scenario.bug_one_in = 40;
      const std::string said = absl::StrJoin(RunScenario(scenario, seed).violations, "\n");
      for (auto kind = left.begin(); kind != left.end();)
        kind = absl::StrContains(said, *kind) ? left.erase(kind) : std::next(kind);
    }
  }
  EXPECT_EQ(left, std::set<std::string>());
}

// Deaths and silences must be noticed in time: one bug hides a death, one makes the controller too patient.
TEST(PlantedBugs, ALossThatIsNoticedTooLateIsNoticed) {
  const auto violations = [](const char* fault, Bug bug) {
    Scenario scenario = Read("tenants");
    scenario.faults = {{fault, absl::Milliseconds(2), absl::Milliseconds(20)}};
    scenario.bug = bug;
    scenario.bug_one_in = 1;
    return absl::StrJoin(RunScenario(scenario, 1).violations, "\n");
  };
  EXPECT_EQ(violations("crash", Bug::kNone), "");
  EXPECT_EQ(violations("power", Bug::kNone), "");
  EXPECT_TRUE(absl::StrContains(violations("crash", Bug::kHushEnd), "is still taken for living"));
  EXPECT_TRUE(absl::StrContains(violations("power", Bug::kPatience), "is still taken for living"));
}

// The violations that a bug in one part causes; without a bug there are none. A wrong launch order shows as missing answers to clients.
struct Part {
  const char* name;
  Bug bug;
  uint64_t one_in;
  const char* scenario;
  const char* said;
};

class PlantedInAPart : public ::testing::TestWithParam<Part> {
 protected:
  std::string Violations(Bug bug, uint64_t seed) const {
    Scenario scenario = Read(GetParam().scenario);
    scenario.faults.clear();
    scenario.limit = absl::Seconds(5);
    scenario.bug = bug;
    scenario.bug_one_in = GetParam().one_in;
    return absl::StrJoin(RunScenario(scenario, seed).violations, "\n");
  }
};

TEST_P(PlantedInAPart, IsNoticedByItsInvariant) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    EXPECT_EQ(Violations(Bug::kNone, seed), "");
    const std::string said = Violations(GetParam().bug, seed);
    EXPECT_TRUE(absl::StrContains(said, GetParam().said)) << GetParam().said << " is not in:\n" << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, PlantedInAPart,
                         ::testing::Values(Part{"order", Bug::kWrongOrder, 3, "wide", "has not finished"},
                                           Part{"references", Bug::kFreedEarly, 40, "tenants", "failed: "},
                                           Part{"leaks", Bug::kForgottenRelease, 3, "memory", "RESOURCE_EXHAUSTED"},
                                           Part{"plans", Bug::kWrongPlan, 3, "exchange", "and should hold"},
                                           Part{"donation", Bug::kWrongDonation, 3, "tenants", "failed: "},
                                           Part{"progress", Bug::kForgottenCompletion, 40, "tenants",
                                                "completions after the last session"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PlantedBugs, AFrameThatIsNotToldAgainIsNoticed) {
  Scenario scenario = Read("unlinked");
  std::erase_if(scenario.faults,
                [](const Fault& fault) { return fault.kind != "unlink" || fault.duration > absl::Milliseconds(50); });
  scenario.limit = absl::Seconds(5);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    scenario.bug = Bug::kNone;
    EXPECT_EQ(absl::StrJoin(RunScenario(scenario, seed).violations, "\n"), "");
    scenario.bug = Bug::kSkippedFrame;
    scenario.bug_one_in = 2;
    EXPECT_NE(absl::StrJoin(RunScenario(scenario, seed).violations, "\n"), "");
  }
}

// Nothing else than the names keeps a host from doing a command twice.
TEST(PlantedBugs, NamesThatAreForgottenTooEarlyAreNoticed) {
  Scenario scenario = Read("repeats");
  scenario.faults.clear();
  scenario.limit = absl::Seconds(5);
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    scenario.bug = Bug::kNone;
    const Report report = RunScenario(scenario, seed);
    ExpectClean(report);
    EXPECT_GT(report.repeated, 100u);
    EXPECT_EQ(report.after_settled, 0u);
    EXPECT_EQ(report.errors, 0u);
    scenario.bug = Bug::kForgottenNames;
    scenario.bug_one_in = 3;
    noticed += RunScenario(scenario, seed).violations.empty() ? 0 : 1;
  }
  EXPECT_GE(noticed, 4) << "31 of 40 runs notice it";
}

// A program that has lost nothing reads the values that it expects, and no errors.
TEST(Sim, SessionsOutliveTheirController) {
  Scenario scenario = Read("returns");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    if (seed == 6) {  // copies within a host
      scenario.hosts = scenario.hosts_per_island = 1;
      scenario.devices = 16;  // as many as before: some slices are exclusive
      for (WorkloadSpec& workload : scenario.workloads) workload.numbers["copies"] = 1;
    }
    const Report report = RunScenario(scenario, seed);
    ExpectClean(report);
    EXPECT_EQ(report.errors, 0u);
    EXPECT_GT(report.simulated_seconds, 1) << "it was not over before the controller died";
  }
}

// Also copies between hosts, which a controller that is killed takes with it.
TEST(Sim, SessionsAreLeftToTheNextController) {
  const Scenario scenario = Read("handover");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Report report = RunScenario(scenario, seed);
    ExpectClean(report);
    EXPECT_EQ(report.errors, 0u);
    EXPECT_GT(report.simulated_seconds, 1) << "it was not over before the controller was told to stop";
  }
}

// Computations that take long, so that many requests are under way when clients hear of settled ones; and copies, whose names clients are told.
TEST(PlantedBugs, MistakesAboutSessionsThatOutliveTheirControllerAreNoticed) {
  Scenario scenario = Read("returns");
  scenario.limit = absl::Seconds(20);
  scenario.hosts = scenario.hosts_per_island = 1;
  scenario.workloads = {{"mix", 12, {{"operations", 1000}, {"us", 500}}}};
  scenario.faults.resize(1);
  scenario.faults[0].earliest = absl::Milliseconds(100);
  scenario.faults[0].latest = absl::Milliseconds(300);
  for (Bug bug : {Bug::kNone, Bug::kWrongName, Bug::kShortReport, Bug::kForgottenNames}) {
    scenario.bug = bug;
    scenario.bug_one_in = 1;
    int noticed = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      const Report report = RunScenario(scenario, seed);
      noticed += report.violations.empty() && report.errors == 0 ? 0 : 1;
    }
    if (bug == Bug::kNone)
      EXPECT_EQ(noticed, 0);
    else
      EXPECT_GE(noticed, 3) << static_cast<int>(bug);
  }
}

// Also if programs are sent node by node, if hosts report in groups, and if memory is short.
TEST(Sim, CommandsMayComeAgainHoweverTheyAreSent) {
  for (const auto& [name, sequential] : std::vector<std::pair<std::string, bool>>{
           {"pipeline", false}, {"pipeline", true}, {"wide", false}, {"exchange", false}, {"memory", false}}) {
    Scenario scenario = Read(name);
    scenario.repeats = 2;
    scenario.sequential = sequential;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Report report = RunScenario(scenario, seed);
      ExpectClean(report);
      EXPECT_GT(report.repeated, 40u) << name;
      // A broken connection repeats frames.
      if (scenario.faults.empty()) {
        EXPECT_EQ(report.after_settled, 0u) << name;
      }
    }
  }
}

// The invariant of launch order by itself.
TEST(PlantedBugs, LaunchesInAnotherOrderOrTwiceAreNoticed) {
  const auto violations = [](const std::map<std::string, std::vector<int>>& launches) {
    World world(1);
    Referee referee(&world);
    referee.CheckLaunches(launches);
    return absl::StrJoin(referee.violations(), "\n");
  };
  const int one = worker::ProgramExecutor::LaunchNumber(1), two = worker::ProgramExecutor::LaunchNumber(2),
            three = worker::ProgramExecutor::LaunchNumber(3);
  EXPECT_EQ(violations({{"a", {one, two, three}}, {"b", {two, three}}, {"c", {one, three}}}), "");
  EXPECT_TRUE(absl::StrContains(violations({{"a", {one, two, three}}, {"b", {three, two}}}), "in different orders"));
  EXPECT_TRUE(absl::StrContains(violations({{"a", {one, two, one}}}), "twice"));
  EXPECT_EQ(violations({{"a", {2, one, 3}}, {"b", {3, one, 2}}}), "") << "numbers of computations that each has alone";
  EXPECT_TRUE(absl::StrContains(violations({{"a", {1, 2, 1}}}), "launched computation 1 twice"));
}

// The same with more hosts; `make sim` runs more seeds of them.
class Larger : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Larger, HoldsToo) {
  Scenario scenario = Read(std::get<0>(GetParam()));
  scenario.hosts = std::get<1>(GetParam());
  const Report report = RunScenario(scenario, 1);
  ExpectClean(report);
  EXPECT_GT(report.reads, 0u);
}

INSTANTIATE_TEST_SUITE_P(Sim, Larger,
                         ::testing::Combine(::testing::Values("chain", "pipeline", "tenants", "training", "exchange", "elastic",
                                                              "controller", "memory"),
                                            ::testing::Values(128, 512)),
                         [](const auto& info) { return absl::StrCat(std::get<0>(info.param), std::get<1>(info.param)); });

// If devices hold less than the clients need at the same time, computations wait for each other: slower, but nothing fails.
TEST(Sim, ShortMemoryTakesTimeAndNothingElse) {
  Scenario scenario = Read("memory");
  scenario.device_memory_bytes = 48;  // three arrays for two clients
  const Report with_little = RunScenario(scenario, 1);
  scenario.device_memory_bytes = 0;
  const Report with_enough = RunScenario(scenario, 1);
  ExpectClean(with_little);
  EXPECT_EQ(with_little.reads, with_enough.reads);
  EXPECT_EQ(with_little.errors, 0u);
  EXPECT_GT(with_little.work_seconds, with_enough.work_seconds * 1.01);
}

}  // namespace
}  // namespace pw::sim
