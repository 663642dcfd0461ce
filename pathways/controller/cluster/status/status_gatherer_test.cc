#include "pathways/controller/cluster/status/status_gatherer.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Sessions 1 and 2: the second is another user's.
StatusReport ReportOfTwo() {
  StatusReport report;
  for (uint64_t session : {1, 2}) {
    const SessionId client(session);
    SliceStatus slice;
    slice.client = client;
    report.slices.push_back(slice);
    HangStatus hang;
    hang.client = client;
    report.hangs.push_back(hang);
    report.events.push_back({absl::UnixEpoch(), "client connected", "", client});
  }
  report.events.push_back({absl::UnixEpoch(), "host joined", "", {}});
  auto& device = *report.hosts[HostId(0)].metrics.emplace().mutable_memory()->add_devices();
  (*device.mutable_used_by_session())[1] = 10;
  (*device.mutable_used_by_session())[2] = 20;
  auto& health = report.hosts[HostId(0)].health.emplace();
  for (uint64_t session : {1, 2}) health.add_quota_waits()->set_session(session);
  health.add_users()->set_user("ada");
  report.hosts[HostId(1)].pid = 7;  // has not answered
  return report;
}

TEST(HideOthersTest, AUserSeesItsOwnAndWhatConcernsAll) {
  StatusReport report = ReportOfTwo();
  HideOthers([](SessionId session) { return session != SessionId(1); }, &report);
  ASSERT_EQ(report.slices.size(), 1u);
  EXPECT_EQ(report.slices[0].client, SessionId(1));
  ASSERT_EQ(report.hangs.size(), 1u);
  EXPECT_EQ(report.hangs[0].client, SessionId(1));
  std::vector<std::string> events;
  for (const ClusterEvent& event : report.events) events.push_back(event.kind);
  EXPECT_THAT(events, ElementsAre("client connected", "host joined"));
  EXPECT_EQ(report.events[0].client, SessionId(1));
  EXPECT_THAT(report.hosts[HostId(0)].metrics->memory().devices(0).used_by_session(), UnorderedElementsAre(Pair(1, 10)));
  const auto& health = *report.hosts[HostId(0)].health;
  ASSERT_EQ(health.quota_waits_size(), 1);
  EXPECT_EQ(health.quota_waits(0).session(), 1u);
  EXPECT_EQ(health.users_size(), 0);
  EXPECT_EQ(report.hosts[HostId(1)].pid, 7) << "hosts are everybody's";
}

TEST(HideOthersTest, NothingOfAnEndedSessionIsShown) {
  StatusReport report = ReportOfTwo();
  HideOthers([](SessionId) { return true; }, &report);
  EXPECT_TRUE(report.slices.empty());
  EXPECT_TRUE(report.hangs.empty());
  EXPECT_EQ(report.events.size(), 1u) << "the event of a host";
  EXPECT_TRUE(report.hosts[HostId(0)].metrics->memory().devices(0).used_by_session().empty());
}

}  // namespace
}  // namespace pw::controller
