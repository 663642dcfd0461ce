// Completions in large clusters. The controller receives far fewer frames than completions from programs over many hosts. A host
// that reports for others may hang or die without affecting any other host. The tests count frames; times are simulated.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "pathways/sim/cluster.h"
#include "pathways/sim/testing.h"
#include "pathways/sim/workload.h"

namespace pw::sim {
namespace {

using controller::ReportGroups;

class WideCluster {
 public:
  explicit WideCluster(int hosts) : world_(1), cluster_(LargeScenario(hosts), &world_) {
    EXPECT_TRUE(cluster_.Form());
    Pass(absl::Milliseconds(100));
  }
  ~WideCluster() { world_.Drop(); }
  void Pass(absl::Duration duration) {
    world_.RunUntil(world_.now() + duration, [] { return false; });
  }
  // Starts a chain of computations over `hosts` hosts, from number `first` in the controller's order.
  Workload& StartChain(int first, int64_t hosts, int64_t length) {
    const WorkloadSpec spec{"chain", 1, {{"length", length}, {"repeat", 1}, {"us", 200}, {"hosts", hosts}}};
    workloads_.push_back(MakeWorkload({&cluster_, first}, spec));
    workloads_.back()->Start([] {});
    return *workloads_.back();
  }
  bool Finishes(const Workload& workload, absl::Duration within) {
    return world_.RunUntil(world_.now() + within, [&] { return workload.finished(); });
  }
  // Number of the first host that reports for others.
  int FirstSpeaker() {
    for (HostId host : topology().hosts()) {
      if (controller().report_groups().Of(host) == host) return NumberOf(host);
    }
    ADD_FAILURE() << "nobody speaks for others";
    return 0;
  }
  std::string Violations() { return absl::StrJoin(cluster_.referee().violations(), "\n"); }

  controller::ClusterImpl& controller() { return cluster_.controller(); }
  SimCluster& cluster() { return cluster_; }
  absl::Time now() const { return world_.now(); }

 private:
  resource::Topology& topology() { return controller().fabric().topology(); }
  int NumberOf(HostId id) { return sim::NumberOf(topology(), id); }

  World world_;
  SimCluster cluster_;
  std::vector<std::unique_ptr<Workload>> workloads_;
};

// Each host completes 200 computations. Without groups that is a frame for each computation and host.
TEST(Reports, ACallOverManyHostsBringsTheControllerAFrameForEachGroup) {
  constexpr uint64_t kHosts = 128, kCalls = 200;
  WideCluster wide(kHosts);
  const uint64_t before = wide.controller().frames_heard();
  const Workload& chain = wide.StartChain(0, kHosts, kCalls);
  ASSERT_TRUE(wide.Finishes(chain, absl::Seconds(2)));
  const uint64_t frames = wide.controller().frames_heard() - before;
  EXPECT_LT(frames, kCalls * kHosts / 8);
  EXPECT_GT(chain.reads(), 0u);
  EXPECT_EQ(chain.errors(), 0u);
  EXPECT_EQ(wide.Violations(), "");
}

// All hosts know that their reports were seen, so none reports directly.
TEST(Reports, APauseCostsNoFrames) {
  constexpr uint64_t kHosts = 128;
  WideCluster wide(kHosts);
  const Workload& chain = wide.StartChain(0, kHosts, 3);
  ASSERT_TRUE(wide.Finishes(chain, absl::Seconds(2)));
  wide.Pass(absl::Milliseconds(20));  // the session has ended everywhere
  const uint64_t before = wide.controller().frames_heard();
  wide.Pass(absl::Milliseconds(330));
  EXPECT_LT(wide.controller().frames_heard() - before, kHosts * 3 / 2) << "one heartbeat, at most";
}

TEST(Reports, InASmallClusterNobodySpeaksForOthers) {
  WideCluster small(static_cast<int>(ReportGroups::kFew));
  for (HostId host : small.controller().fabric().topology().hosts())
    EXPECT_FALSE(small.controller().report_groups().Of(host).has_value());
  ASSERT_TRUE(small.Finishes(small.StartChain(0, ReportGroups::kFew, 20), absl::Seconds(1)));
  EXPECT_EQ(small.Violations(), "");
}

// A program over the other hosts of the group continues without the hanging one.
TEST(Reports, WhoSpeaksForOthersMayHang) {
  WideCluster wide(40);
  wide.cluster().StopHost(wide.FirstSpeaker(), absl::Seconds(2));
  const absl::Time begin = wide.now();
  const Workload& chain = wide.StartChain(1, 24, 40);
  ASSERT_TRUE(wide.Finishes(chain, absl::Seconds(3)));
  EXPECT_LT(wide.now() - begin, absl::Seconds(1)) << "long before it is back";
  EXPECT_EQ(chain.errors(), 0u);
  wide.Pass(absl::Seconds(3));
  ASSERT_TRUE(wide.Finishes(wide.StartChain(0, 40, 40), absl::Seconds(1))) << "it is back";
  EXPECT_EQ(wide.Violations(), "");
}

TEST(Reports, WhoSpeaksForOthersMayDie) {
  for (bool silently : {false, true}) {
    WideCluster wide(40);
    const Workload& chain = wide.StartChain(1, 24, 200);
    wide.Pass(absl::Milliseconds(5));
    ASSERT_FALSE(chain.finished());
    const int speaker = wide.FirstSpeaker();
    wide.cluster().CrashHost(speaker, silently);
    ASSERT_TRUE(wide.Finishes(chain, absl::Seconds(1)));
    EXPECT_EQ(chain.errors(), 0u) << "it had no part in this";
    wide.Pass(kHeartbeat * 2);
    EXPECT_NE(wide.FirstSpeaker(), speaker);
    const uint64_t before = wide.controller().frames_heard();
    ASSERT_TRUE(wide.Finishes(wide.StartChain(0, 39, 200), absl::Seconds(1)));
    EXPECT_LT(wide.controller().frames_heard() - before, 200u * 39 / 4) << "another speaks in its place";
    EXPECT_EQ(wide.Violations(), "");
  }
}

}  // namespace
}  // namespace pw::sim
