#include "pathways/controller/hosts/report_groups.h"

#include <random>

#include "gtest/gtest.h"

namespace pw::controller {
namespace {

std::set<HostId> Hosts(uint32_t first, uint32_t count) {
  std::set<HostId> hosts;
  for (uint32_t h = first; h < first + count; ++h) hosts.insert(HostId(h));
  return hosts;
}

// Returns the group sizes, by speaker.
std::map<HostId, size_t> GroupsOf(const ReportGroups& report_groups, const std::set<HostId>& hosts) {
  std::map<HostId, size_t> groups;
  for (HostId host : hosts) {
    if (const auto speaker = report_groups.Of(host)) ++groups[*speaker];
  }
  return groups;
}

TEST(ReportGroups, InASmallClusterEverybodyReportsAlone) {
  ReportGroups report_groups;
  EXPECT_EQ(report_groups.Of(HostId(0)), std::nullopt);
  report_groups.SetHosts(Hosts(0, ReportGroups::kFew));
  for (HostId host : Hosts(0, ReportGroups::kFew)) EXPECT_EQ(report_groups.Of(host), std::nullopt);
}

TEST(ReportGroups, TheFirstOfEachGroupSpeaks) {
  ReportGroups report_groups;
  report_groups.SetHosts(Hosts(0, 80));
  EXPECT_EQ(GroupsOf(report_groups, Hosts(0, 80)),
            (std::map<HostId, size_t>{{HostId(0), 32}, {HostId(32), 32}, {HostId(64), 16}}));
  EXPECT_EQ(report_groups.Of(HostId(33)), HostId(32));
  EXPECT_EQ(report_groups.Of(HostId(80)), std::nullopt) << "who is not there";
}

TEST(ReportGroups, WhoIsLeftOverReportsAlone) {
  ReportGroups report_groups;
  report_groups.SetHosts(Hosts(0, 65));
  EXPECT_EQ(report_groups.Of(HostId(63)), HostId(32));
  EXPECT_EQ(report_groups.Of(HostId(64)), std::nullopt);
}

TEST(ReportGroups, ALossChangesTheWayOfItsGroupAlone) {
  ReportGroups report_groups;
  std::set<HostId> hosts = Hosts(0, 128);
  report_groups.SetHosts(hosts);
  hosts.erase(HostId(5));
  hosts.erase(HostId(32));
  report_groups.SetHosts(hosts);
  EXPECT_EQ(report_groups.Of(HostId(5)), std::nullopt);
  EXPECT_EQ(report_groups.Of(HostId(32)), std::nullopt);
  EXPECT_EQ(GroupsOf(report_groups, hosts),
            (std::map<HostId, size_t>{{HostId(0), 31}, {HostId(33), 31}, {HostId(64), 32}, {HostId(96), 32}}));
}

TEST(ReportGroups, WhoJoinsFillsUpGroups) {
  ReportGroups report_groups;
  std::set<HostId> hosts = Hosts(0, 64);
  report_groups.SetHosts(hosts);
  hosts.erase(HostId(40));
  hosts.insert(HostId(64));
  hosts.insert(HostId(65));
  hosts.insert(HostId(66));
  report_groups.SetHosts(hosts);
  EXPECT_EQ(report_groups.Of(HostId(64)), HostId(32));
  EXPECT_EQ(report_groups.Of(HostId(65)), HostId(65)) << "the others are a new group";
  EXPECT_EQ(report_groups.Of(HostId(66)), HostId(65));
}

TEST(ReportGroups, AClusterThatShrinksAndGrowsIsGroupedAnew) {
  ReportGroups report_groups;
  report_groups.SetHosts(Hosts(0, 100));
  report_groups.SetHosts(Hosts(0, ReportGroups::kFew));
  EXPECT_EQ(report_groups.Of(HostId(3)), std::nullopt);
  report_groups.SetHosts(Hosts(0, 20));
  EXPECT_EQ(GroupsOf(report_groups, Hosts(0, 20)), (std::map<HostId, size_t>{{HostId(0), 20}}));
}

// Hosts come and go at random; the invariants hold at every moment.
TEST(ReportGroups, NobodyIsSpokenForByWhoIsNotThere) {
  std::mt19937 random(7);
  ReportGroups report_groups;
  std::set<HostId> hosts;
  uint32_t next = 0;
  for (int step = 0; step < 2000; ++step) {
    const bool grows = random() % 200 > hosts.size();
    for (uint32_t n = random() % 8; n > 0; --n) {
      if (grows)
        hosts.insert(HostId(next++));
      else if (!hosts.empty())
        hosts.erase(std::next(hosts.begin(), static_cast<ptrdiff_t>(random() % hosts.size())));
    }
    report_groups.SetHosts(hosts);
    const auto groups = GroupsOf(report_groups, hosts);
    EXPECT_LE(groups.size(), 2 * ((hosts.size() + ReportGroups::kMost - 1) / ReportGroups::kMost) + 1);
    for (const auto& [speaker, size] : groups) {
      EXPECT_TRUE(hosts.contains(speaker));
      EXPECT_EQ(report_groups.Of(speaker), speaker);
      EXPECT_GE(size, 2u);
      EXPECT_LE(size, ReportGroups::kMost);
    }
    for (HostId host : hosts) EXPECT_TRUE(hosts.size() > ReportGroups::kFew || !report_groups.Of(host).has_value());
  }
}

}  // namespace
}  // namespace pw::controller
