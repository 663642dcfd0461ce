#include "pathways/controller/hosts/speakers.h"

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
std::map<HostId, size_t> GroupsOf(const Speakers& speakers, const std::set<HostId>& hosts) {
  std::map<HostId, size_t> groups;
  for (HostId host : hosts) {
    if (const auto speaker = speakers.Of(host)) ++groups[*speaker];
  }
  return groups;
}

TEST(Speakers, InASmallClusterEverybodyReportsAlone) {
  Speakers speakers;
  EXPECT_EQ(speakers.Of(HostId(0)), std::nullopt);
  speakers.SetHosts(Hosts(0, Speakers::kFew));
  for (HostId host : Hosts(0, Speakers::kFew)) EXPECT_EQ(speakers.Of(host), std::nullopt);
}

TEST(Speakers, TheFirstOfEachGroupSpeaks) {
  Speakers speakers;
  speakers.SetHosts(Hosts(0, 80));
  EXPECT_EQ(GroupsOf(speakers, Hosts(0, 80)), (std::map<HostId, size_t>{{HostId(0), 32}, {HostId(32), 32}, {HostId(64), 16}}));
  EXPECT_EQ(speakers.Of(HostId(33)), HostId(32));
  EXPECT_EQ(speakers.Of(HostId(80)), std::nullopt) << "who is not there";
}

TEST(Speakers, WhoIsLeftOverReportsAlone) {
  Speakers speakers;
  speakers.SetHosts(Hosts(0, 65));
  EXPECT_EQ(speakers.Of(HostId(63)), HostId(32));
  EXPECT_EQ(speakers.Of(HostId(64)), std::nullopt);
}

TEST(Speakers, ALossChangesTheWayOfItsGroupAlone) {
  Speakers speakers;
  std::set<HostId> hosts = Hosts(0, 128);
  speakers.SetHosts(hosts);
  hosts.erase(HostId(5));
  hosts.erase(HostId(32));
  speakers.SetHosts(hosts);
  EXPECT_EQ(speakers.Of(HostId(5)), std::nullopt);
  EXPECT_EQ(speakers.Of(HostId(32)), std::nullopt);
  EXPECT_EQ(GroupsOf(speakers, hosts),
            (std::map<HostId, size_t>{{HostId(0), 31}, {HostId(33), 31}, {HostId(64), 32}, {HostId(96), 32}}));
}

TEST(Speakers, WhoJoinsFillsUpGroups) {
  Speakers speakers;
  std::set<HostId> hosts = Hosts(0, 64);
  speakers.SetHosts(hosts);
  hosts.erase(HostId(40));
  hosts.insert(HostId(64));
  hosts.insert(HostId(65));
  hosts.insert(HostId(66));
  speakers.SetHosts(hosts);
  EXPECT_EQ(speakers.Of(HostId(64)), HostId(32));
  EXPECT_EQ(speakers.Of(HostId(65)), HostId(65)) << "the others are a new group";
  EXPECT_EQ(speakers.Of(HostId(66)), HostId(65));
}

TEST(Speakers, AClusterThatShrinksAndGrowsIsGroupedAnew) {
  Speakers speakers;
  speakers.SetHosts(Hosts(0, 100));
  speakers.SetHosts(Hosts(0, Speakers::kFew));
  EXPECT_EQ(speakers.Of(HostId(3)), std::nullopt);
  speakers.SetHosts(Hosts(0, 20));
  EXPECT_EQ(GroupsOf(speakers, Hosts(0, 20)), (std::map<HostId, size_t>{{HostId(0), 20}}));
}

// Hosts come and go at random; the invariants hold at every moment.
TEST(Speakers, NobodyIsSpokenForByWhoIsNotThere) {
  std::mt19937 random(7);
  Speakers speakers;
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
    speakers.SetHosts(hosts);
    const auto groups = GroupsOf(speakers, hosts);
    EXPECT_LE(groups.size(), 2 * ((hosts.size() + Speakers::kMost - 1) / Speakers::kMost) + 1);
    for (const auto& [speaker, size] : groups) {
      EXPECT_TRUE(hosts.contains(speaker));
      EXPECT_EQ(speakers.Of(speaker), speaker);
      EXPECT_GE(size, 2u);
      EXPECT_LE(size, Speakers::kMost);
    }
    for (HostId host : hosts) EXPECT_TRUE(hosts.size() > Speakers::kFew || !speakers.Of(host).has_value());
  }
}

}  // namespace
}  // namespace pw::controller
