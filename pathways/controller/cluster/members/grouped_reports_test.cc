// Completions that one host reports for others.
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

constexpr int kHosts = 20;
constexpr HostId kSpeaker(0);

struct WideCluster : TestCluster {
  WideCluster() : TestCluster(kHosts, 1) {}
  FakeWorker& On(HostId host) {
    for (auto& worker : workers) {
      if (!worker->closed && worker->welcome.host() == host.v) return *worker;
    }
    ADD_FAILURE() << host.v << " is not there";
    return *workers[0];
  }
  // Returns the host through which it was told to report.
  std::optional<HostId> ThroughOf(HostId host) {
    for (const auto& peer : On(host).peers.peers()) {
      if (peer.host() == host.v && peer.has_reports_through()) return HostId(peer.reports_through());
    }
    return std::nullopt;
  }
  // Adds a command to the host and counts its completion or failure.
  uint64_t Give(HostId host) {
    auto done = [this](const absl::Status& status, std::optional<double>) { ++(status.ok() ? completed : failed); };
    const OpId op(*RequestName{SessionId(1), 1, OpCount(next_++, true), false}.Number());
    cluster->fabric().ops().Add(host, op, nullptr, std::move(done));
    return op.v;
  }
  // Sends a report from `from` that `host` has completed the command.
  void Tell(HostId from, HostId host, uint64_t number, uint64_t op) {
    ::pathways::v1::FromWorker message;
    auto* report = message.add_events()->mutable_joined()->add_reports();
    report->set_host(host.v);
    report->set_number(number);
    report->mutable_done()->add_ok(op);
    On(from).Send(message);
    Run();
  }

  int completed = 0;
  int failed = 0;

 private:
  uint64_t next_ = 0;
};

TEST(ClusterReports, HostsAreToldThroughWhomToReport) {
  WideCluster t;
  for (uint32_t h = 0; h < kHosts; ++h) EXPECT_EQ(t.ThroughOf(HostId(h)), kSpeaker);
  t.On(kSpeaker).Die();
  t.Run();
  for (uint32_t h = 1; h < kHosts; ++h) EXPECT_EQ(t.ThroughOf(HostId(h)), HostId(1));
}

TEST(ClusterReports, WhoSpeaksForAHostIsBelieved) {
  WideCluster t;
  const uint64_t op = t.Give(HostId(3));
  t.Tell(kSpeaker, HostId(3), 1, op);
  EXPECT_EQ(t.completed, 1);
  t.Tell(kSpeaker, HostId(3), 1, op);
  EXPECT_EQ(t.completed, 1) << "once";
}

TEST(ClusterReports, NobodyElseIs) {
  WideCluster t;
  const uint64_t op = t.Give(HostId(3));
  t.Tell(HostId(4), HostId(3), 1, op);
  EXPECT_EQ(t.completed, 0);
  t.timers.Advance(absl::Seconds(1));
  EXPECT_EQ(t.On(HostId(3)).reports_seen, 0u);
  t.Tell(kSpeaker, HostId(4), 1, op);
  EXPECT_EQ(t.completed, 0) << "it was not for that host";
}

// The host may have been the speaker until a moment ago; it keeps no copies of its own reports.
TEST(ClusterReports, WhatAHostSaysOfItselfCounts) {
  WideCluster t;
  const uint64_t op = t.Give(HostId(4));
  t.Tell(HostId(4), HostId(4), 0, op);
  EXPECT_EQ(t.completed, 1);
}

TEST(ClusterReports, AHostHearsThatItsReportWasSeenAlsoIfNothingElseIsSent) {
  WideCluster t;
  t.Tell(kSpeaker, HostId(3), 1, t.Give(HostId(3)));
  EXPECT_EQ(t.On(HostId(3)).reports_seen, 0u);
  const int frames = t.On(HostId(3)).frames, others = t.On(HostId(5)).frames;
  t.timers.Advance(absl::Milliseconds(100));
  EXPECT_EQ(t.On(HostId(3)).reports_seen, 1u);
  EXPECT_EQ(t.On(HostId(3)).frames, frames + 1);
  EXPECT_EQ(t.On(HostId(5)).frames, others);
  t.Tell(kSpeaker, HostId(3), 2, t.Give(HostId(3)));
  t.timers.Advance(absl::Milliseconds(100));
  EXPECT_EQ(t.On(HostId(3)).reports_seen, 2u);
}

TEST(ClusterReports, WhatIsReportedOfALostHostIsNothing) {
  WideCluster t;
  const uint64_t op = t.Give(HostId(3));
  t.On(HostId(3)).Die();
  t.Run();
  EXPECT_EQ(t.failed, 1);
  t.Tell(kSpeaker, HostId(3), 1, op);
  EXPECT_EQ(t.completed, 0);
}

}  // namespace
}  // namespace pw::controller
