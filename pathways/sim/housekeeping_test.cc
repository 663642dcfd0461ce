// Housekeeping in large clusters: the controller's incoming frames for a round do not grow with the number of hosts, and a host that fails
// only misses its own report. The tests count frames; times are simulated.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/controller/housekeeping/host_poll.h"
#include "pathways/sim/cluster.h"
#include "pathways/sim/testing.h"

namespace pw::sim {
namespace {

using controller::HostPoll;

struct LargeCluster {
  explicit LargeCluster(int hosts, uint64_t seed = 1) : world(seed), cluster(LargeScenario(hosts), &world) {
    EXPECT_TRUE(cluster.Form());
    Ticks(3);
  }
  void Ticks(int count) {
    world.RunUntil(world.now() + count * cluster.controller().tick(), [] { return false; });
  }
  const controller::Housekeeping& housekeeping() { return cluster.controller().housekeeping(); }
  resource::Topology& topology() { return cluster.controller().fabric().topology(); }
  int NumberOf(HostId id) { return sim::NumberOf(topology(), id); }
  // Hosts that have not reported their health for this many ticks.
  std::set<HostId> Silent(double ticks) {
    std::set<HostId> silent;
    for (HostId host : topology().hosts()) {
      const auto* health = housekeeping().HealthOf(host);
      if (health == nullptr || world.now() - health->heard > ticks * cluster.controller().tick()) silent.insert(host);
    }
    return silent;
  }

  World world;
  SimCluster cluster;
};

size_t Groups(int hosts) { return (static_cast<size_t>(hosts) + HostPoll::kFanIn - 1) / HostPoll::kFanIn; }

class LargeClusters : public ::testing::TestWithParam<int> {};

// Two frames a group: the answers, and the end of the run.
TEST_P(LargeClusters, ARoundBringsTheControllerNoMoreFramesThanTheFanIn) {
  constexpr int kRounds = 10;
  LargeCluster large(GetParam());
  EXPECT_TRUE(large.Silent(1.5).empty());
  const uint64_t before = large.housekeeping().frames_heard();
  large.Ticks(kRounds);
  const uint64_t frames = large.housekeeping().frames_heard() - before;
  EXPECT_LE(frames, kRounds * 2 * Groups(GetParam()));
  EXPECT_LE(frames, kRounds * HostPoll::kFanIn);
  EXPECT_GE(frames, kRounds * Groups(GetParam()));
  EXPECT_TRUE(large.Silent(1.5).empty()) << "and everybody has said how it is";
}

TEST_P(LargeClusters, EveryHostIsInTheMetrics) {
  LargeCluster large(GetParam());
  size_t heard = 0;
  large.cluster.controller().Post([&] {
    large.cluster.controller().GetStatus([&](absl::StatusOr<std::string> json) {
      ASSERT_TRUE(json.ok());
      heard = std::vector<std::string>(absl::StrSplit(*json, "\"used_bytes\":")).size() - 1;
    });
  });
  large.Ticks(2);
  EXPECT_EQ(heard, static_cast<size_t>(GetParam()));
}

// The host that combines the second group's reports dies: its group is asked without it, in the same round.
TEST_P(LargeClusters, AHostThatAddsUpForOthersCostsItsOwnReportWhenItDies) {
  for (bool silently : {false, true}) {
    LargeCluster large(GetParam());
    const HostId inner = large.topology().hosts()[HostPoll::kFanIn];
    large.cluster.CrashHost(large.NumberOf(inner), silently);
    for (int tick = 0; tick < 12; ++tick) {
      large.Ticks(1);
      // A silent death costs the others of its group one round.
      std::set<HostId> silent = large.Silent(silently ? 3.5 : 2.5);
      silent.erase(inner);
      EXPECT_TRUE(silent.empty()) << silent.size() << " hosts, after tick " << tick;
    }
    EXPECT_EQ(large.topology().FindHost(inner), nullptr) << "it is known to be lost";
    const uint64_t before = large.housekeeping().frames_heard();
    large.Ticks(4);
    EXPECT_LE(large.housekeeping().frames_heard() - before, 4 * 2 * Groups(GetParam()));
  }
}

// A host that hangs for a while is neither dead nor well.
TEST_P(LargeClusters, AHostThatHangsKeepsNobodyElseFromAnswering) {
  LargeCluster large(GetParam());
  const HostId inner = large.topology().hosts()[0];
  large.cluster.StopHost(large.NumberOf(inner), kHeartbeat * 0.55);
  for (int tick = 0; tick < 10; ++tick) {
    large.Ticks(1);
    std::set<HostId> silent = large.Silent(3.5);
    silent.erase(inner);
    EXPECT_TRUE(silent.empty()) << silent.size() << " hosts, after tick " << tick;
  }
  EXPECT_TRUE(large.Silent(2.5).empty()) << "it is back";
}

// ---- configuration, through a recording

// Frames that the controller has sent to all hosts over the dataflow.
uint64_t DataflowSent(LargeCluster& large) {
  uint64_t sent = 0;
  for (HostId host : large.topology().hosts())
    sent += large.cluster.controller().fabric().outbox().counters(host).of(::pathways::v1::Command::kDataflow);
  return sent;
}

struct Recording {
  explicit Recording(LargeCluster* large) : large(large) {
    const uint64_t heard = large->housekeeping().frames_heard(), sent = DataflowSent(*large);
    large->cluster.controller().Post([large, trace = trace] {
      large->cluster.controller().RecordTrace(
          absl::Seconds(6), 1000, [trace](absl::StatusOr<controller::ClusterTrace> result) { *trace = std::move(result); });
    });
    large->world.RunUntil(large->world.now() + large->cluster.controller().tick() / 2, [&] { return Begun(); });
    frames_heard = large->housekeeping().frames_heard() - heard;
    frames_sent = DataflowSent(*large) - sent;
  }
  bool Begun() const { return large->cluster.controller().fabric().recorder().on(); }
  // Hosts with an older configuration.
  std::set<HostId> Behind() const {
    std::set<HostId> behind;
    for (HostId host : large->topology().hosts()) {
      if (large->cluster.host(large->NumberOf(host)).configuration() != large->housekeeping().config().version())
        behind.insert(host);
    }
    return behind;
  }

  LargeCluster* const large;
  uint64_t frames_heard = 0, frames_sent = 0;
  using Trace = std::optional<absl::StatusOr<controller::ClusterTrace>>;
  const std::shared_ptr<Trace> trace = std::make_shared<Trace>();  // set once it has been gathered
};

// The second time: two frames per group back and one there. Each host sends its recorded events itself.
TEST_P(LargeClusters, AConfigurationCostsTheControllerAMessageForEachGroup) {
  LargeCluster large(GetParam());
  for (uint64_t round : {0, 1}) {
    Recording recording(&large);
    ASSERT_TRUE(recording.Begun()) << "all have been told, long before the next tick";
    EXPECT_TRUE(recording.Behind().empty()) << recording.Behind().size() << " hosts";
    EXPECT_LE(recording.frames_heard, 2 * Groups(GetParam()));
    EXPECT_LE(recording.frames_sent, (2 - round) * Groups(GetParam())) << "the first time with the graph";
    large.Ticks(25);
    ASSERT_TRUE(recording.trace->has_value() && (*recording.trace)->ok());
    EXPECT_TRUE((**recording.trace)->silent_hosts.empty());
    EXPECT_TRUE(recording.Behind().empty()) << "it has ended everywhere";
  }
}

// The host that should tell the second group dies before it does.
TEST_P(LargeClusters, AHostThatTellsOthersCostsNobodyAConfigurationWhenItDies) {
  for (bool silently : {false, true}) {
    LargeCluster large(GetParam());
    const HostId inner = large.topology().hosts()[HostPoll::kFanIn];
    large.cluster.CrashHost(large.NumberOf(inner), silently);
    Recording recording(&large);
    large.Ticks(12);
    EXPECT_TRUE(recording.Begun());
    EXPECT_TRUE(recording.Behind().empty()) << recording.Behind().size() << " hosts";
    large.Ticks(25);
    ASSERT_TRUE(recording.trace->has_value() && (*recording.trace)->ok());
    EXPECT_LE((**recording.trace)->silent_hosts.size(), 1u);
    EXPECT_TRUE(recording.Behind().empty()) << "it has ended everywhere";
  }
}

// A member hangs: the others of its group are told, and so is the member when it is back.
TEST_P(LargeClusters, AHostThatHangsKeepsNobodyFromBeingConfigured) {
  for (size_t which : {size_t{0}, size_t{1}, HostPoll::kFanIn}) {
    LargeCluster large(GetParam());
    const HostId hung = large.topology().hosts()[which];
    large.cluster.StopHost(large.NumberOf(hung), kHeartbeat * 0.55);
    Recording recording(&large);
    large.Ticks(4);
    EXPECT_TRUE(recording.Begun());
    std::set<HostId> behind = recording.Behind();
    behind.erase(hung);
    EXPECT_TRUE(behind.empty()) << behind.size() << " hosts";
    large.Ticks(10);
    EXPECT_TRUE(recording.Behind().empty()) << "it is back";
  }
}

INSTANTIATE_TEST_SUITE_P(Sim, LargeClusters, ::testing::Values(128, 512));

TEST(HostPoll, GroupsAreEvenAndNotMoreThanTheFanIn) {
  for (size_t hosts : {1u, 64u, 65u, 128u, 512u, 4096u, 5000u, 20000u}) {
    std::vector<HostId> all;
    for (size_t h = 0; h < hosts; ++h) all.push_back(HostId(static_cast<uint32_t>(h)));
    const auto groups = HostPoll::GroupsOf(all);
    if (hosts <= HostPoll::kFanIn) {
      EXPECT_TRUE(groups.empty());
      continue;
    }
    EXPECT_LE(groups.size(), HostPoll::kFanIn);
    std::vector<HostId> joined;
    for (const auto& group : groups) joined.insert(joined.end(), group.begin(), group.end());
    EXPECT_EQ(joined, all);
  }
}

}  // namespace
}  // namespace pw::sim
