#include "pathways/resource/topology.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::resource {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HostDescription HostWithMemories(std::string name, std::string island, int devices, int memories = 2) {
  HostDescription host{std::move(name), std::move(island), "cpu", "1", {}};
  for (int d = 0; d < devices; ++d) {
    DeviceDescription device;
    device.kind = "cpu";
    for (int m = 0; m < memories; ++m) device.memories.push_back({absl::StrCat("kind", m), m});
    host.devices.push_back(std::move(device));
  }
  return host;
}

TEST(TopologyTest, NumbersTheFirstClusterByNamesNotByArrival) {
  std::vector<HostDescription> hosts = {HostWithMemories("h10", "a", 2), HostWithMemories("h2", "a", 1),
                                        HostWithMemories("x", "b", 3), HostWithMemories("y", "B9", 1)};
  std::sort(hosts.begin(), hosts.end(), [](auto& a, auto& b) { return a.name < b.name; });
  std::string expected;
  do {
    Topology topology;
    auto ids = topology.FormCluster(hosts);
    ASSERT_TRUE(ids.ok());
    for (size_t i = 0; i < hosts.size(); ++i) EXPECT_EQ(topology.FindHost((*ids)[i])->name, hosts[i].name);
    if (expected.empty()) expected = topology.Summary();
    EXPECT_EQ(topology.Summary(), expected);
    EXPECT_EQ(topology.FindHost(HostId(0))->name, "y");
    EXPECT_EQ(topology.FindHost(HostId(1))->name, "h2");
    EXPECT_EQ(topology.FindHost(HostId(2))->name, "h10");
    EXPECT_THAT(topology.FindHost(HostId(2))->devices, ElementsAre(DeviceId(2), DeviceId(3)));
  } while (std::next_permutation(hosts.begin(), hosts.end(), [](auto& a, auto& b) { return a.name < b.name; }));
}

TEST(TopologyTest, VirtualDevicesAreWhereTheirPhysicalOnesAre) {
  Topology topology;
  ASSERT_TRUE(topology.FormCluster({HostWithMemories("a", "i", 2), HostWithMemories("b", "i", 2)}).ok());
  const DeviceId virtual_device(kFirstVirtualDevice.v + 7);
  ASSERT_EQ(topology.FindDevice(virtual_device), nullptr);
  topology.Bind(virtual_device, DeviceId(1));
  EXPECT_EQ(topology.FindDevice(virtual_device)->id, virtual_device);
  EXPECT_EQ(topology.FindDevice(virtual_device)->physical, DeviceId(1));
  EXPECT_EQ(topology.FindDevice(virtual_device)->local_ordinal, 1);
  EXPECT_TRUE(topology.SameHost({virtual_device, DeviceId(0)}));
  EXPECT_EQ(topology.devices().size(), 4u);
  EXPECT_EQ(topology.FindHost(HostId(0))->devices.size(), 2u);
  topology.Bind(virtual_device, DeviceId(2));
  EXPECT_THAT(topology.VirtualDevicesOf(HostId(1)), ElementsAre(virtual_device));
  ASSERT_TRUE(topology.RemoveHost(HostId(1)).ok());
  EXPECT_EQ(topology.FindDevice(virtual_device), nullptr);
}

Attributes Shown(const Topology& topology, const Device& device) {
  return ClientAttributes(topology, device, *topology.FindHost(device.host));
}

TEST(TopologyTest, FormsOnlyOnce) {
  Topology topology;
  ASSERT_TRUE(topology.AddHost(HostWithMemories("a", "i", 1)).ok());
  EXPECT_EQ(topology.FormCluster({HostWithMemories("b", "i", 1)}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TopologyTest, AHostThatComesBackIsNewAndTakesItsSeat) {
  Topology topology;
  const HostId first = *topology.AddHost(HostWithMemories("a", "i", 2));
  const IslandId island = topology.FindHost(first)->island;
  const uint64_t epoch = topology.epoch();
  const Host gone = *topology.RemoveHost(first);
  EXPECT_GT(topology.epoch(), epoch);
  EXPECT_EQ(gone.devices.size(), 2u);
  EXPECT_EQ(topology.FindHost(first), nullptr);
  EXPECT_EQ(topology.FindDevice(gone.devices[0]), nullptr);
  EXPECT_EQ(topology.FindMemory(MemoryId(0)), nullptr);
  EXPECT_TRUE(topology.TakeSnapshot().islands.empty());
  EXPECT_THAT(std::string(topology.GetDevice(gone.devices[0]).status().message()), HasSubstr("device 0 has left"));
  EXPECT_EQ(topology.RemoveHost(first).status().code(), absl::StatusCode::kNotFound);

  const HostId second = *topology.AddHost(HostWithMemories("a", "i", 2));
  EXPECT_NE(second, first);
  EXPECT_EQ(topology.FindHost(second)->devices, gone.devices);
  EXPECT_EQ(topology.FindHost(second)->island, island);
  EXPECT_EQ(topology.FindIslandByName("i")->hosts, std::vector<HostId>{second});
  EXPECT_EQ(topology.FindDevice(DeviceId(1))->host, second);
  EXPECT_EQ(topology.FindMemory(MemoryId(3))->device, DeviceId(1));
}

// Returns the host as it joins the next topology.
HostDescription Returning(const Topology& topology, HostId id, HostDescription host) {
  const Host& there = *topology.FindHost(id);
  FormerPlace place{there.island, there.seat, there.devices, {}};
  for (DeviceId device : there.devices) {
    for (MemoryId memory : topology.FindDevice(device)->memories) place.memories.push_back(memory);
  }
  host.former = std::move(place);
  return host;
}

std::string Places(const Topology& topology) {
  std::string text;
  for (const Host& host : topology.TakeSnapshot().hosts) {
    absl::StrAppend(&text, topology.Describe(host), " island ", host.island.v, " seat ", host.seat, ":");
    for (DeviceId device : host.devices) {
      absl::StrAppend(&text, " ", device.v, "(");
      for (MemoryId memory : topology.FindDevice(device)->memories) absl::StrAppend(&text, memory.v, " ");
      absl::StrAppend(&text, ")");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

TEST(TopologyTest, HostsThatReturnGetTheirFormerPlacesInWhateverOrderTheyCome) {
  Topology before;
  std::vector<HostDescription> hosts = {HostWithMemories("c", "j", 1), HostWithMemories("a", "i", 2, 1),
                                        HostWithMemories("b", "i", 3)};
  std::vector<HostDescription> returning;
  for (const HostDescription& host : hosts) returning.push_back(Returning(before, *before.AddHost(host), host));
  std::set<std::string> expected;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(Places(before), '\n'))) expected.insert(line);
  std::sort(returning.begin(), returning.end(), [](auto& a, auto& b) { return a.name < b.name; });
  do {
    Topology one_by_one, at_once;
    for (const HostDescription& host : returning) ASSERT_TRUE(one_by_one.AddHost(host).ok());
    ASSERT_TRUE(at_once.FormCluster(returning).ok());
    for (const Topology* topology : {&one_by_one, &at_once}) {
      std::set<std::string> places;
      for (const std::string& line : std::vector<std::string>(absl::StrSplit(Places(*topology), '\n'))) places.insert(line);
      EXPECT_EQ(places, expected);
    }
  } while (std::next_permutation(returning.begin(), returning.end(), [](auto& a, auto& b) { return a.name < b.name; }));
}

TEST(TopologyTest, APlaceIsKeptFreeForTheHostThatHadIt) {
  Topology before, after;
  const HostDescription a = Returning(before, *before.AddHost(HostWithMemories("a", "i", 2)), HostWithMemories("a", "i", 2));
  const HostDescription b = Returning(before, *before.AddHost(HostWithMemories("b", "j", 2)), HostWithMemories("b", "j", 2));
  ASSERT_TRUE(after.AddHost(b).ok());
  const HostId other = *after.AddHost(HostWithMemories("other", "k", 1));
  EXPECT_THAT(after.FindHost(other)->devices, ElementsAre(DeviceId(4)));
  const HostId back = *after.AddHost(a);
  EXPECT_THAT(after.FindHost(back)->devices, ElementsAre(DeviceId(0), DeviceId(1)));
  EXPECT_EQ(after.FindHost(back)->island, IslandId(0));
  EXPECT_THAT(after.devices(), ElementsAre(DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3), DeviceId(4)));
  ASSERT_TRUE(after.RemoveHost(back).ok());
  EXPECT_THAT(after.FindHost(*after.AddHost(HostWithMemories("a", "i", 2)))->devices, ElementsAre(DeviceId(0), DeviceId(1)))
      << "its seat is one like any other";
}

TEST(TopologyTest, AFormerPlaceOfWhichSomethingIsTakenOrWrongIsNotGiven) {
  const FormerPlace good{IslandId(3), 1, {DeviceId(5)}, {MemoryId(7), MemoryId(8)}};
  const auto joins = [&](const FormerPlace& place, const std::string& island = "i") {
    Topology topology;
    EXPECT_TRUE(topology.AddHost(HostWithMemories("first", "taken", 1)).ok());
    HostDescription host = HostWithMemories("a", island, 1);
    host.former = place;
    const HostId id = *topology.AddHost(host);
    return topology.FindHost(id)->devices.front() == place.devices.front();
  };
  EXPECT_TRUE(joins(good));
  std::vector<FormerPlace> wrong(11, good);
  wrong[0].devices = {DeviceId(0)};
  wrong[1].devices = {DeviceId(-1)};
  wrong[2].devices = {kFirstVirtualDevice};
  wrong[3].devices = {DeviceId(5), DeviceId(6)};
  wrong[4].memories = {MemoryId(7), MemoryId(7)};
  wrong[5].memories = {MemoryId(1), MemoryId(8)};
  wrong[6].memories = {MemoryId(7), MemoryId(INT32_MAX)};
  wrong[7].memories = {MemoryId(7)};
  wrong[8].island = IslandId(0);
  wrong[9].island = IslandId(UINT32_MAX);
  wrong[10].seat = -1;
  for (size_t i = 0; i < wrong.size(); ++i) EXPECT_FALSE(joins(wrong[i])) << i;
  EXPECT_FALSE(joins(good, "taken")) << "the island has another number";
  FormerPlace beside{IslandId(0), 1, {DeviceId(5)}, {MemoryId(7), MemoryId(8)}};
  EXPECT_TRUE(joins(beside, "taken"));
  beside.seat = 0;
  EXPECT_FALSE(joins(beside, "taken")) << "another host has the seat";
}

TEST(TopologyTest, AnEmptySeatKeepsWhatClientsAreShown) {
  Topology topology;
  const HostId host = *topology.AddHost(HostWithMemories("a", "i", 1));
  const Attributes before = Shown(topology, *topology.FindDevice(DeviceId(0)));
  ASSERT_TRUE(topology.RemoveHost(host).ok());
  ASSERT_EQ(topology.empty_seats().size(), 1u);
  const EmptySeat& seat = topology.empty_seats()[0];
  EXPECT_EQ(ClientAttributes(topology, *seat.devices[0], seat.host), before);
  ASSERT_FALSE(seat.memories.empty());
  EXPECT_EQ(seat.memories[0]->device, DeviceId(0));
  ASSERT_TRUE(topology.AddHost(HostWithMemories("a", "i", 1)).ok());
  EXPECT_TRUE(topology.empty_seats().empty());
}

TEST(TopologyTest, AHostTakesItsOwnSeatElseTheLowestThatFits) {
  Topology topology;
  ASSERT_TRUE(topology
                  .FormCluster({HostWithMemories("a", "i", 2), HostWithMemories("b", "i", 2), HostWithMemories("c", "i", 2),
                                HostWithMemories("d", "j", 2)})
                  .ok());
  for (uint32_t host : {2u, 0u, 1u, 3u}) ASSERT_TRUE(topology.RemoveHost(HostId(host)).ok());
  EXPECT_EQ(topology.FindFormerDevice(DeviceId(3))->host, HostId(1));
  EXPECT_EQ(topology.FindFormerDevice(DeviceId(9)), nullptr);
  const auto join = [&](const HostDescription& host) { return topology.FindHost(*topology.AddHost(host)); };
  const Host* own = join(HostWithMemories("b", "i", 2));
  EXPECT_EQ(own->seat, 1);
  EXPECT_THAT(own->devices, ElementsAre(DeviceId(2), DeviceId(3)));
  EXPECT_EQ(topology.FindFormerDevice(DeviceId(3)), nullptr);
  EXPECT_THAT(join(HostWithMemories("new", "i", 2))->devices, ElementsAre(DeviceId(0), DeviceId(1)));
  EXPECT_EQ(Shown(topology, *topology.FindDevice(DeviceId(3))).ints.at("virtual_task_index"), 1);
}

TEST(TopologyTest, AHostOfOtherDevicesTakesANewSeat) {
  auto at = [](int64_t x) {
    HostDescription host = HostWithMemories("a", "i", 2);
    host.devices[1].attributes.lists["coords"] = {x};
    return host;
  };
  auto faster = at(1);
  faster.devices[0].kind = "faster";
  for (const HostDescription& other :
       {HostWithMemories("a", "i", 3), HostWithMemories("a", "i", 2, 1), HostWithMemories("a", "j", 2), faster, at(2)}) {
    Topology topology;
    ASSERT_TRUE(topology.RemoveHost(*topology.AddHost(at(1))).ok());
    EXPECT_EQ(topology.FindHost(*topology.AddHost(other))->devices[0], DeviceId(2));
    EXPECT_EQ(topology.FindHost(*topology.AddHost(at(1)))->devices[0], DeviceId(0));
  }
}

TEST(TopologyTest, RefusesIncompleteHostsAndChangesNothing) {
  Topology topology;
  auto twice = HostWithMemories("a", "i", 1);
  twice.devices[0].memories[1].kind = twice.devices[0].memories[0].kind;
  auto no_platform = HostWithMemories("a", "i", 1);
  no_platform.platform_name.clear();
  for (const auto& host : {HostWithMemories("", "i", 1), HostWithMemories("a", "", 1), HostWithMemories("a", "i", 0),
                           HostWithMemories("a", "i", 1, 0), twice, no_platform}) {
    EXPECT_EQ(topology.AddHost(host).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(topology.FormCluster({HostWithMemories("b", "i", 1), host}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(topology.epoch(), 0u);
  EXPECT_EQ(topology.Summary(), "0 islands, 0 hosts, 0 devices\n");
  EXPECT_EQ(topology.FindIslandByName("i"), nullptr);
}

TEST(TopologyTest, UnknownIdsAreNotFound) {
  Topology topology;
  ASSERT_TRUE(topology.AddHost(HostWithMemories("a", "i", 1)).ok());
  EXPECT_EQ(topology.FindDevice(DeviceId(-1)), nullptr);
  EXPECT_EQ(topology.FindDevice(DeviceId(1)), nullptr);
  EXPECT_EQ(topology.FindIsland(IslandId(1)), nullptr);
  EXPECT_THAT(std::string(topology.GetHostOf(DeviceId(9)).status().message()),
              HasSubstr("device 9 does not exist; the cluster now has 1 device"));
}

TEST(TopologyTest, ShowsClientsThePlaceOfADevice) {
  Topology topology;
  auto a = HostWithMemories("a", "left", 1), b = HostWithMemories("b", "right", 1);
  a.devices[0].attributes.ints = {{"slice_index", 5}, {"core_on_chip", 1}};
  a.devices[0].attributes.lists["coords"] = {1, 2, 3};
  a.devices[0].attributes.strings["virtual_task_index"] = "of the runtime's own";
  a.devices[0].kind = "an accelerator";
  const auto c = HostWithMemories("c", "right", 1);
  ASSERT_TRUE(topology.FormCluster({a, b, c}).ok());
  const Device& first = *topology.FindDevice(DeviceId(0));
  const Device& second = *topology.FindDevice(DeviceId(1));
  const Attributes shown = Shown(topology, first);
  EXPECT_EQ(shown.lists.at("coords"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(shown.ints.at("core_on_chip"), 1);
  EXPECT_EQ(shown.ints.at("slice_index"), 0);
  EXPECT_EQ(shown.strings.at("island"), "left");
  EXPECT_EQ(shown.strings.at("host"), "a");
  EXPECT_EQ(shown.ints.at("virtual_task_index"), 0);
  EXPECT_FALSE(shown.strings.contains("virtual_task_index"));
  EXPECT_FALSE(shown.ints.contains("colocation_id"));
  EXPECT_EQ(Shown(topology, second).ints.at("slice_index"), 1);
  EXPECT_EQ(Shown(topology, second).ints.at("virtual_task_index"), 0);
  const Attributes third = Shown(topology, *topology.FindDevice(DeviceId(2)));
  EXPECT_EQ(third.ints.at("slice_index"), 1);
  EXPECT_EQ(third.ints.at("virtual_task_index"), 1);
  EXPECT_EQ(third.ints.at("colocation_id"), 2);
  // When a host leaves, the others keep their numbers: it may come back.
  ASSERT_TRUE(topology.RemoveHost(HostId(1)).ok());
  EXPECT_EQ(Shown(topology, *topology.FindDevice(DeviceId(2))).ints.at("virtual_task_index"), 1);
}

TEST(TopologyTest, SummaryAndDescriptionAreForPeople) {
  Topology topology;
  ASSERT_TRUE(topology.FormCluster({HostWithMemories("b0", "b", 4), HostWithMemories("a0", "a", 4)}).ok());
  EXPECT_EQ(topology.Summary(),
            "2 islands, 2 hosts, 8 devices\n"
            "  island a  host a0 (host 0)  4 x cpu  devices 0-3\n"
            "  island b  host b0 (host 1)  4 x cpu  devices 4-7\n");
  EXPECT_EQ(topology.Describe(*topology.FindHost(HostId(1))), "host 'b0' of island 'b'");
}

// The model: the hosts that have joined and not left, with their devices; the empty seats, in the order of their first devices.
class Model {
 public:
  // Returns the devices of the seat that the host takes; empty: a new seat.
  std::vector<DeviceId> TakeSeat(const HostDescription& host) {
    const auto size = [](const HostDescription& h) { return std::pair(h.devices.size(), h.devices[0].memories.size()); };
    auto best = seats.end();
    for (auto it = seats.begin(); it != seats.end(); ++it) {
      if (it->second.island != host.island || size(it->second) != size(host)) continue;
      if (best == seats.end() || (it->second.name == host.name && best->second.name != host.name)) best = it;
    }
    if (best == seats.end()) return {};
    std::vector<DeviceId> devices = best->first;
    seats.erase(best);
    return devices;
  }

  void Check(const Topology& topology) const {
    const Snapshot s = topology.TakeSnapshot();
    ASSERT_EQ(s.hosts.size(), hosts.size());
    size_t devices = 0, memories = 0, placed = 0;
    std::set<DeviceId> seen;
    for (const Host& host : s.hosts) {
      const HostDescription& expected = hosts.at(host.id);
      ASSERT_EQ(host.name, expected.name);
      ASSERT_EQ(topology.FindIsland(host.island)->name, expected.island);
      ASSERT_EQ(island_ids.at(expected.island), host.island);
      ASSERT_EQ(host.devices.size(), expected.devices.size());
      ASSERT_TRUE(topology.SameHost(host.devices));
      for (size_t i = 0; i < host.devices.size(); ++i) {
        const Device* device = topology.FindDevice(host.devices[i]);
        ASSERT_TRUE(seen.insert(device->id).second);
        ASSERT_EQ(device->host, host.id);
        ASSERT_EQ(device->island, host.island);
        ASSERT_EQ(device->local_ordinal, static_cast<int>(i));
        for (MemoryId id : device->memories) ASSERT_EQ(topology.FindMemory(id)->device, device->id);
        memories += device->memories.size();
      }
      devices += host.devices.size();
    }
    for (const Island& island : s.islands) {
      std::vector<DeviceId> all;
      for (HostId id : island.hosts) {
        ASSERT_EQ(topology.FindHost(id)->island, island.id);
        const auto& mine = topology.FindHost(id)->devices;
        all.insert(all.end(), mine.begin(), mine.end());
      }
      ASSERT_FALSE(all.empty());
      ASSERT_TRUE(topology.SameIsland(all));
      ASSERT_EQ(topology.SameHost(all), island.hosts.size() == 1);
      ASSERT_TRUE(std::is_sorted(island.hosts.begin(), island.hosts.end()));
      placed += island.hosts.size();
    }
    ASSERT_EQ(placed, s.hosts.size());
    ASSERT_EQ(s.devices.size(), devices);
    ASSERT_EQ(s.memories.size(), memories);
    ASSERT_EQ(topology.SameIsland(topology.devices()), s.islands.size() <= 1);
  }

  std::map<HostId, HostDescription> hosts;
  std::map<std::string, IslandId> island_ids;
  std::map<std::vector<DeviceId>, HostDescription> seats;
};

TEST(TopologyTest, StaysConsistentWhileHostsComeAndGo) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 rng(seed);
    Topology topology;
    Model model;
    std::set<HostId> ever;
    std::set<DeviceId> ever_devices;
    for (int step = 0; step < 60; ++step) {
      const Topology before = topology;  // a copy is a view that no later change touches
      const std::string before_text = before.Summary();
      if (model.hosts.empty() || rng() % 3 != 0) {
        auto host = HostWithMemories(absl::StrCat("h", rng() % 5), absl::StrCat("i", rng() % 3), 1 + rng() % 4, 1 + rng() % 3);
        const HostId id = *topology.AddHost(host);
        ASSERT_TRUE(ever.insert(id).second);
        const std::vector<DeviceId>& devices = topology.FindHost(id)->devices;
        if (const std::vector<DeviceId> seat = model.TakeSeat(host); !seat.empty()) {
          ASSERT_EQ(devices, seat);
        } else {
          for (DeviceId d : devices) ASSERT_TRUE(ever_devices.insert(d).second);
        }
        model.island_ids.try_emplace(host.island, topology.FindHost(id)->island);
        model.hosts.emplace(id, std::move(host));
      } else {
        auto victim = std::next(model.hosts.begin(), rng() % model.hosts.size());
        const absl::StatusOr<Host> gone = topology.RemoveHost(victim->first);
        ASSERT_TRUE(gone.ok());
        model.seats.emplace(gone->devices, victim->second);
        model.hosts.erase(victim);
      }
      ASSERT_NO_FATAL_FAILURE(model.Check(topology));
      ASSERT_EQ(before.Summary(), before_text);
    }
  }
}

}  // namespace
}  // namespace pw::resource
