#include "pathways/resource/placement.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/resource/testing.h"

namespace pw::resource {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool Everywhere(IslandId) { return true; }

std::vector<Candidate> Hosts(int islands, int hosts, int devices) {
  std::vector<Candidate> all;
  for (int i = 0; i < islands * hosts * devices; ++i) {
    Candidate c;
    c.id = DeviceId(i);
    c.host = HostId(i / devices);
    c.island = IslandId(i / devices / hosts);
    c.island_name = "island" + std::to_string(c.island.v);
    c.platform = "cpu";
    c.kind = "cpu";
    all.push_back(c);
  }
  return all;
}

// One host of a mesh of x by y by z chips.
std::vector<Candidate> Mesh(int x, int y, int z) {
  std::vector<Candidate> all = Hosts(1, 1, x * y * z);
  for (int i = 0; i < x * y * z; ++i) all[i].coords = {i % x, i / x % y, i / x / y};
  return all;
}

std::vector<int> Numbers(const std::vector<DeviceId>& devices) {
  std::vector<int> numbers;
  for (DeviceId id : devices) numbers.push_back(id.v);
  return numbers;
}

std::vector<int> PlaceNow(const std::vector<Candidate>& all, const SliceRequest& request) {
  auto devices = Place(all, {request, Against::kNow, std::nullopt, Everywhere});
  return devices.has_value() ? Numbers(*devices) : std::vector<int>();
}

SliceRequest Shape(std::vector<int64_t> shape) {
  SliceRequest request;
  request.shape = std::move(shape);
  request.count = 1;
  for (int64_t extent : request.shape) request.count *= extent;
  return request;
}

TEST(PlacementTest, TheLeastLoadedDevicesAreTaken) {
  auto all = Hosts(1, 1, 4);
  all[0].load = all[2].load = 1;
  EXPECT_THAT(PlaceNow(all, Count(2)), ElementsAre(1, 3));
  EXPECT_THAT(PlaceNow(all, Count(3)), ElementsAre(0, 1, 3));
}

TEST(PlacementTest, AmongEqualLoadsFewHostsAreUsed) {
  auto all = Hosts(1, 3, 4);
  all[0].load = 1;
  EXPECT_THAT(PlaceNow(all, Count(3)), ElementsAre(1, 2, 3));
  EXPECT_THAT(PlaceNow(all, Count(4)), ElementsAre(4, 5, 6, 7));
  SliceRequest spread = Count(3);
  spread.hosts = HostChoice::kSpread;
  EXPECT_THAT(PlaceNow(all, spread), ElementsAre(1, 4, 8));
}

TEST(PlacementTest, PackingMattersMoreThanLoad) {
  auto all = Hosts(1, 2, 3);
  for (int i : {0, 1, 3}) all[i].load = 1;
  EXPECT_THAT(PlaceNow(all, Count(3)), ElementsAre(2, 4, 5));
  SliceRequest pack = Count(3);
  pack.hosts = HostChoice::kPack;
  EXPECT_THAT(PlaceNow(all, pack), ElementsAre(3, 4, 5));
}

TEST(PlacementTest, ASliceLiesInOneIsland) {
  const auto all = Hosts(2, 1, 2);
  EXPECT_TRUE(PlaceNow(all, Count(3)).empty());
  EXPECT_THAT(NearestFit(all, Count(3), std::nullopt), HasSubstr("nearest fit is 2 devices of kind cpu in island 'island"));
  SliceRequest named = Count(2);
  named.island = "island1";
  EXPECT_THAT(PlaceNow(all, named), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(*Place(all, {Count(1), Against::kNow, IslandId(1), Everywhere})), ElementsAre(2));
}

TEST(PlacementTest, ConstraintsNameWhatIsThere) {
  auto all = Hosts(1, 1, 2);
  all[1].kind = "fast";
  all[1].memory_limit = 100;
  SliceRequest request = Count(1);
  request.kind = "fast";
  request.memory_per_device = 60;
  EXPECT_THAT(PlaceNow(all, request), ElementsAre(1));
  all[1].memory_reserved = 50;
  EXPECT_TRUE(PlaceNow(all, request).empty());
  EXPECT_EQ(FittingIslands(all, request, std::nullopt).size(), 1u);
  request.memory_per_device = 101;
  EXPECT_TRUE(FittingIslands(all, request, std::nullopt).empty());
  EXPECT_THAT(NearestFit(all, request, std::nullopt), HasSubstr("1 of kind fast (100 bytes each) in island 'island0'"));
}

TEST(PlacementTest, AcceleratorsAreOfTheirPlatformAndCpuStandsIn) {
  auto all = Hosts(1, 1, 2);
  SliceRequest tpu = Count(2);
  tpu.platform = "tpu";
  EXPECT_THAT(PlaceNow(all, tpu), ElementsAre(0, 1));
  for (Candidate& c : all) c.platform = "cuda";
  EXPECT_TRUE(PlaceNow(all, tpu).empty());
  tpu.platform = "gpu";
  EXPECT_THAT(PlaceNow(all, tpu), ElementsAre(0, 1));
}

TEST(PlacementTest, AMeshShapeIsABoxOfThePhysicalMesh) {
  auto all = Mesh(4, 4, 1);
  EXPECT_THAT(PlaceNow(all, Shape({2, 2})), ElementsAre(0, 4, 1, 5));
  all[5].load = 1;
  EXPECT_THAT(PlaceNow(all, Shape({2, 2})), ElementsAre(8, 12, 9, 13));
  EXPECT_THAT(PlaceNow(Mesh(4, 1, 1), Shape({2, 2})), ElementsAre());
  EXPECT_THAT(NearestFit(Mesh(4, 1, 1), Shape({2, 2}), std::nullopt), HasSubstr("a mesh within 4x1x1"));
  EXPECT_THAT(PlaceNow(Mesh(2, 2, 2), Shape({2, 2, 2})), ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_EQ(PlaceNow(Mesh(3, 2, 1), Shape({2, 3})).size(), 6u) << "turned";
  EXPECT_THAT(PlaceNow(Hosts(1, 1, 4), Shape({2, 2})), ElementsAre(0, 1, 2, 3)) << "no mesh: a count";
}

TEST(PlacementTest, WhatMakesNoSenseIsSaid) {
  EXPECT_EQ(Malformed(Count(1)), "");
  EXPECT_NE(Malformed(Count(0)), "");
  EXPECT_NE(Malformed(Count(1 << 20)), "");
  EXPECT_NE(Malformed(Shape({2, 2, 2, 2})), "");
  SliceRequest wrong = Shape({1, 1});
  wrong.shape = {int64_t{1} << 40, int64_t{1} << 40};  // their product overflows
  EXPECT_NE(Malformed(wrong), "");
  wrong = Shape({2, 2});
  wrong.count = 5;
  EXPECT_NE(Malformed(wrong), "");
  wrong = Count(1);
  wrong.platform = "abacus";
  EXPECT_NE(Malformed(wrong), "");
  wrong = Count(1);
  wrong.memory_per_device = -1;
  EXPECT_NE(Malformed(wrong), "");
}

// The least sum of loads over all sets of `count` devices of one group, found by trying all sets; and the fewest hosts.
struct Best {
  bool any = false;
  int load = 0, hosts = 0;
};
Best TryAll(const std::vector<Candidate>& all, const SliceRequest& r) {
  Best best;
  for (unsigned set = 0; set < 1u << all.size(); ++set) {
    if (__builtin_popcount(set) != r.count) continue;
    std::set<std::pair<IslandId, std::string>> groups;
    std::set<HostId> hosts;
    int load = 0;
    bool fits = true;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!(set >> i & 1)) continue;
      const Candidate& c = all[i];
      groups.insert({c.island, c.kind});
      hosts.insert(c.host);
      load += c.load;
      fits &= !c.drained && c.exclusive == 0 && !(r.exclusive && c.load > 0) && (r.kind.empty() || r.kind == c.kind);
      fits &= c.memory_limit == 0 || c.memory_reserved + r.memory_per_device <= c.memory_limit;
    }
    if (!fits || groups.size() != 1) continue;
    if (!best.any || load < best.load) best.load = load;
    if (!best.any || static_cast<int>(hosts.size()) < best.hosts) best.hosts = static_cast<int>(hosts.size());
    best.any = true;
  }
  return best;
}

TEST(PlacementPropertyTest, AsGoodAsTheBestOfAllSets) {
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](int n) { return static_cast<int>(random() % n); };
    auto all = Hosts(1 + pick(2), 1 + pick(2), 1 + pick(2));
    for (Candidate& c : all) {
      c.load = pick(3);
      c.exclusive = c.load == 1 && pick(3) == 0 ? 1 : 0;
      c.kind = pick(4) == 0 ? "fast" : "cpu";
      c.drained = pick(8) == 0;
      c.memory_limit = pick(2) * 10;
      c.memory_reserved = c.load * 3;
    }
    SliceRequest request = Count(1 + pick(4));
    request.exclusive = pick(4) == 0;
    request.memory_per_device = pick(3) * 4;
    if (pick(4) == 0) request.kind = "fast";
    request.hosts = static_cast<HostChoice>(pick(3));
    const std::vector<int> devices = PlaceNow(all, request);
    const Best best = TryAll(all, request);
    ASSERT_EQ(!devices.empty(), best.any);
    if (devices.empty()) continue;
    ASSERT_EQ(static_cast<int64_t>(devices.size()), request.count);
    ASSERT_EQ(std::set<int>(devices.begin(), devices.end()).size(), devices.size());
    int load = 0;
    std::set<HostId> hosts;
    for (int d : devices) load += all[d].load, hosts.insert(all[d].host);
    if (request.hosts == HostChoice::kPack) {
      EXPECT_EQ(static_cast<int>(hosts.size()), best.hosts);
    } else {
      EXPECT_EQ(load, best.load);
    }
  }
}

}  // namespace
}  // namespace pw::resource
