// The paper's figure 7 in simulated time: a chain of k tiny computations over k hosts, each on the next, for k up to 128. What one more
// call takes with parallel dispatch, and with sequential dispatch of the same program.
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/sim/run.h"

namespace pw::sim {
namespace {

double Seconds(int hosts, bool sequential, int64_t calls) {
  Scenario scenario;
  scenario.name = "chain";
  scenario.hosts = hosts;
  scenario.hosts_per_island = hosts;
  scenario.devices = 1;
  scenario.sequential = sequential;
  scenario.workloads = {{"pipeline", 1, {{"stages", hosts}, {"batches", calls}, {"us", 1}}}};
  const Report report = RunScenario(scenario, 1);
  EXPECT_TRUE(report.violations.empty()) << absl::StrJoin(report.violations, "\n");
  return report.work_seconds;
}

// The difference of two lengths: compilation and loading are in both.
double SecondsPerCall(int hosts, bool sequential) {
  return (Seconds(hosts, sequential, 24) - Seconds(hosts, sequential, 8)) / 16;
}

TEST(Pipelines, ParallelDispatchIsTwiceAsFastFromFourStagesOn) {
  for (int hosts : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const double parallel = SecondsPerCall(hosts, false), sequential = SecondsPerCall(hosts, true);
    RecordProperty(absl::StrCat("ratio_", hosts), absl::StrCat(sequential / parallel));
    if (hosts >= 4) {
      EXPECT_GE(sequential, 2 * parallel) << hosts << " hosts";
    }
  }
}

}  // namespace
}  // namespace pw::sim
