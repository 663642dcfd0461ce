// The paper's figure 7 in simulated time: a chain of k tiny computations over k hosts, each on the next, for k up to 128: what one more call
// takes with parallel dispatch. It is held against the least that any dispatch takes which waits until a stage is enqueued before it sends the
// next, as the paper's sequential one does: a message to each host and one back. Our own sequential dispatch waits for more, until the stage has
// completed, so its time is recorded, and nothing is concluded from it.
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "pathways/sim/network.h"
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

double LeastOfWaitingForEachStage(int hosts) {
  return hosts * 2 * absl::ToDoubleSeconds(NetworkOptions().between.latency);
}

TEST(Pipelines, ParallelDispatchTakesHalfOfWaitingForEachStageFromFourStagesOn) {
  for (int hosts : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const double parallel = SecondsPerCall(hosts, false), waiting = LeastOfWaitingForEachStage(hosts);
    RecordProperty(absl::StrCat("of_waiting_", hosts), absl::StrCat(parallel / waiting));
    if (hosts >= 4) {
      EXPECT_LE(parallel, waiting / 2) << hosts << " hosts";
    }
  }
}

TEST(Pipelines, SequentialDispatchGivesTheSameResults) {
  for (int hosts : {1, 4, 16}) RecordProperty(absl::StrCat("sequential_us_", hosts), absl::StrCat(1e6 * SecondsPerCall(hosts, true)));
}

}  // namespace
}  // namespace pw::sim
