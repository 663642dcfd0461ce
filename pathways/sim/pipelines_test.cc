// The paper's figure 7 in simulated time, where computing on the controller and hosts costs nothing. A call is a chain of k tiny
// computations over k hosts, each on the next host, for k up to 128. Calls run one after another, with parallel dispatch or with
// sequential dispatch.
// Sequential dispatch waits until a stage is enqueued before it sends the next, so each stage takes at least a message to its host and one
// back.
#include <gtest/gtest.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "pathways/sim/network.h"
#include "pathways/sim/run.h"

namespace pw::sim {
namespace {

double Seconds(int hosts, bool sequential, int64_t calls, bool in_turn, int64_t us) {
  Scenario scenario;
  scenario.name = "chain";
  scenario.hosts = hosts;
  scenario.hosts_per_island = hosts;
  scenario.devices = 1;
  scenario.sequential = sequential;
  scenario.workloads = {{"pipeline", 1, {{"stages", hosts}, {"batches", calls}, {"us", us}, {"in_turn", in_turn ? 1 : 0}}}};
  const Report report = RunScenario(scenario, 1);
  EXPECT_TRUE(report.violations.empty()) << absl::StrJoin(report.violations, "\n");
  return report.work_seconds;
}

// The difference of two lengths cancels compilation and loading.
double SecondsPerCall(int hosts, bool sequential, bool in_turn, int64_t us = 1) {
  return (Seconds(hosts, sequential, 24, in_turn, us) - Seconds(hosts, sequential, 8, in_turn, us)) / 16;
}

double LeastOfWaitingForEachStage(int hosts) { return hosts * 2 * absl::ToDoubleSeconds(NetworkOptions().between.latency); }

TEST(Pipelines, ParallelDispatchTakesHalfOfSequentialFromFourStagesOn) {
  for (int hosts : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const double parallel = SecondsPerCall(hosts, false, true), sequential = SecondsPerCall(hosts, true, true);
    RecordProperty(absl::StrCat("parallel_us_", hosts), absl::StrCat(1e6 * parallel));
    RecordProperty(absl::StrCat("sequential_us_", hosts), absl::StrCat(1e6 * sequential));
    EXPECT_GE(sequential, LeastOfWaitingForEachStage(hosts));
    if (hosts >= 4) {
      EXPECT_LE(parallel, sequential / 2) << hosts << " hosts";
    }
    if (hosts >= 16) {
      EXPECT_LE(sequential, 1.5 * LeastOfWaitingForEachStage(hosts)) << hosts << " hosts: it waits for more than it must";
    }
  }
}

// The paper's statement on computations that take longer than the host's work.
TEST(Pipelines, SequentialDispatchOfLongStagesIsHiddenBehindThem) {
  constexpr int kHosts = 16;
  constexpr int64_t kMicroseconds = 1000;
  const double parallel = SecondsPerCall(kHosts, false, true, kMicroseconds);
  const double sequential = SecondsPerCall(kHosts, true, true, kMicroseconds);
  EXPECT_GE(parallel, kHosts * kMicroseconds * 1e-6);
  EXPECT_LE(sequential, 1.02 * parallel);
}

TEST(Pipelines, CallsThatAreDispatchedSequentiallyDoNotWaitForEachOther) {
  constexpr int kHosts = 16;
  EXPECT_LE(SecondsPerCall(kHosts, true, false), SecondsPerCall(kHosts, true, true) / 4);
}

}  // namespace
}  // namespace pw::sim
