#include "pathways/resource/slice_table.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/resource/testing.h"

namespace pw::resource {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr SessionId kAnn(1), kBob(2);

HostDescription MakeHost(std::string name, std::string island, int devices, int64_t memory = 0) {
  HostDescription host{std::move(name), std::move(island), "cpu", "1", {}};
  for (int d = 0; d < devices; ++d) {
    DeviceDescription device;
    device.kind = "cpu";
    device.memories = {{"device", 0}};
    device.memory_limit_bytes = memory;
    host.devices.push_back(std::move(device));
  }
  return host;
}

struct World {
  explicit World(std::vector<HostDescription> hosts) {
    EXPECT_TRUE(topology.FormCluster(std::move(hosts)).ok());
    Changed();
  }
  Outcomes Changed() { return table.SetTopology(topology); }
  Topology topology;
  SliceTable table;
};

bool IsPlaced(const Answer& answer) { return std::holds_alternative<Placed>(answer); }
bool IsWaiting(const Answer& answer) { return std::holds_alternative<MustWait>(answer); }
bool IsInfeasible(const Answer& answer) { return std::holds_alternative<Infeasible>(answer); }

TEST(SliceTableTest, LoadIsSpreadOverAllClients) {
  World world({MakeHost("a", "i", 4)});
  std::map<int, int> load;
  for (int k = 0; k < 10; ++k) {
    auto [slice, answer] = world.table.Add(k % 2 == 0 ? kAnn : kBob, Count(1));
    ASSERT_TRUE(IsPlaced(answer));
    ++load[world.table.Find(slice)->devices[0].v];
    int least = 99, most = 0;
    for (const Candidate& c : world.table.candidates()) least = std::min(least, c.load), most = std::max(most, c.load);
    EXPECT_LE(most - least, 1);
  }
  EXPECT_EQ(load.size(), 4u);
}

TEST(SliceTableTest, WhoWaitsIsToldForWhatAndIsPlacedWhenItIsFree) {
  World world({MakeHost("a", "i", 4)});
  auto [first, placed] = world.table.Add(kAnn, Count(3, true));
  ASSERT_TRUE(IsPlaced(placed));
  auto [second, waits] = world.table.Add(kBob, Count(2));
  ASSERT_TRUE(IsWaiting(waits));
  EXPECT_EQ(std::get<MustWait>(waits).position, 1);
  EXPECT_EQ(std::get<MustWait>(waits).waits_for, "2 devices in island i, held by slice 1 of client 1");
  auto [third, waits_too] = world.table.Add(kBob, Count(1));
  ASSERT_TRUE(IsWaiting(waits_too)) << "not past the one who came before";
  EXPECT_THAT(std::get<MustWait>(waits_too).waits_for, HasSubstr("after a request that came earlier"));
  const Outcomes outcomes = world.table.ReleaseOwner(kAnn);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].slice, second);
  EXPECT_EQ(outcomes[1].slice, third);
  EXPECT_TRUE(IsPlaced(outcomes[0].answer));
  EXPECT_TRUE(IsPlaced(world.table.StateOf(third)));
}

TEST(SliceTableTest, WhatWaitsForAQuotaKeepsNobodyElseWaiting) {
  World world({MakeHost("a", "i", 4)});
  int64_t most = 3;
  world.table.SetQuotas([&](SessionId owner, int64_t devices) -> QuotaRoom {
    if (owner == kBob || world.table.DevicesOf(owner) + devices <= most) return {};
    if (devices > most) return {QuotaRoom::What::kNever, "too many"};
    return {QuotaRoom::What::kLater, "the quota"};
  });
  auto [first, placed] = world.table.Add(kAnn, Count(2));
  ASSERT_TRUE(IsPlaced(placed));
  auto [second, waits] = world.table.Add(kAnn, Count(2));
  ASSERT_TRUE(IsWaiting(waits));
  EXPECT_EQ(std::get<MustWait>(waits).waits_for, "the quota");
  EXPECT_EQ(std::get<MustWait>(waits).position, 1);
  auto [bobs, bobs_answer] = world.table.Add(kBob, Count(2));
  EXPECT_TRUE(IsPlaced(bobs_answer)) << "the island is open to others";
  auto [small, small_answer] = world.table.Add(kAnn, Count(1));
  EXPECT_TRUE(IsPlaced(small_answer));
  auto [never, refused] = world.table.Add(kAnn, Count(4));
  ASSERT_TRUE(IsInfeasible(refused));
  EXPECT_EQ(std::get<Infeasible>(refused).why, "too many");
  EXPECT_TRUE(world.table.Recheck().empty()) << "nothing has changed";
  world.table.Release(small);
  EXPECT_TRUE(IsWaiting(world.table.StateOf(second)));
  most = 4;
  const Outcomes outcomes = world.table.Recheck();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].slice, second);
  EXPECT_TRUE(IsPlaced(outcomes[0].answer));
  EXPECT_EQ(world.table.DevicesOf(kAnn), 4);
  auto [last, last_answer] = world.table.Add(kAnn, Count(3));
  ASSERT_TRUE(IsWaiting(last_answer));
  most = 2;
  EXPECT_TRUE(IsInfeasible(world.table.Recheck().at(0).answer)) << "the quota has become too small";
}

TEST(SliceTableTest, AnIslandThatNobodyWaitsForStaysOpen) {
  World world({MakeHost("a", "i", 2), MakeHost("b", "j", 1)});
  world.table.Add(kAnn, Count(1, true));
  world.table.Add(kAnn, Count(1, true));
  SliceRequest both = Count(2, true);
  ASSERT_TRUE(IsWaiting(world.table.Add(kBob, both).second));
  EXPECT_TRUE(IsPlaced(world.table.Add(kBob, Count(1)).second)) << "island j";
}

TEST(SliceTableTest, HostsComeAndGo) {
  World world({MakeHost("a", "i", 2)});
  auto [first, placed] = world.table.Add(kAnn, Count(2, true));
  auto [second, waits] = world.table.Add(kBob, Count(2));
  ASSERT_TRUE(IsWaiting(waits));
  EXPECT_TRUE(IsInfeasible(world.table.Add(kBob, Count(3)).second));
  const HostId joined = *world.topology.AddHost(MakeHost("b", "i", 2));
  Outcomes outcomes = world.Changed();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].slice, second);
  EXPECT_THAT(world.table.Find(second)->devices, ElementsAre(DeviceId(2), DeviceId(3)));
  auto [third, waits_too] = world.table.Add(kBob, Count(3));
  ASSERT_TRUE(IsWaiting(waits_too)) << "two of them are Ann's";
  ASSERT_TRUE(world.topology.RemoveHost(joined).ok());
  outcomes = world.Changed();
  EXPECT_TRUE(world.table.Find(second)->broken);
  EXPECT_FALSE(world.table.Find(first)->broken);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].slice, third);
  ASSERT_TRUE(IsInfeasible(outcomes[0].answer));
  EXPECT_THAT(std::get<Infeasible>(outcomes[0].answer).why, HasSubstr("nearest fit is 2 devices"));
  ASSERT_TRUE(world.topology.AddHost(MakeHost("c", "i", 2)).ok());  // it takes the seat, with the devices of the second slice
  world.Changed();
  EXPECT_FALSE(world.table.Find(second)->broken);
  EXPECT_TRUE(IsWaiting(world.table.Add(kAnn, Count(1, true)).second)) << "all devices are taken";
}

TEST(SliceTableTest, BesideAnotherSlice) {
  World world({MakeHost("a", "i", 2), MakeHost("b", "j", 2)});
  SliceRequest named = Count(1);
  named.island = "j";
  const SliceId first = world.table.Add(kAnn, named).first;
  SliceRequest beside = Count(2);
  beside.beside = first;
  const SliceId second = world.table.Add(kAnn, beside).first;
  EXPECT_EQ(world.table.Find(second)->island, world.table.Find(first)->island);
  world.table.Release(first);
  const Answer answer = world.table.Add(kAnn, beside).second;
  ASSERT_TRUE(IsInfeasible(answer));
  EXPECT_THAT(std::get<Infeasible>(answer).why, HasSubstr("slice 1, beside which it shall lie, does not live"));
}

TEST(SliceTableTest, ASliceMovesOffADrainedHost) {
  World world({MakeHost("a", "i", 2), MakeHost("b", "i", 2), MakeHost("c", "i", 2)});
  const SliceId slice = world.table.Add(kAnn, Count(2, true)).first;
  const HostId from = world.table.FindCandidate(world.table.Find(slice)->devices[0])->host;
  world.table.SetDrained(from, true);
  ASSERT_EQ(world.table.OnHost(from).size(), 1u);
  ASSERT_TRUE(IsPlaced(world.table.BeginMove(slice)));
  for (DeviceId device : world.table.Find(slice)->next) EXPECT_NE(world.table.FindCandidate(device)->host, from);
  EXPECT_TRUE(IsWaiting(world.table.Add(kBob, Count(3)).second)) << "both places count while it moves";
  const Outcomes outcomes = world.table.EndMove(slice);
  EXPECT_TRUE(world.table.OnHost(from).empty());
  EXPECT_EQ(world.table.Find(slice)->epoch, 2u);
  EXPECT_TRUE(outcomes.empty()) << "the drained host takes nothing";
  EXPECT_EQ(world.table.SetDrained(from, false).size(), 1u);
  world.table.Release(slice);
}

TEST(SliceTableTest, AMoveThatHasNowhereToGoChangesNothing) {
  World world({MakeHost("a", "i", 2), MakeHost("b", "j", 1)});
  const SliceId slice = world.table.Add(kAnn, Count(2)).first;
  world.table.SetDrained(HostId(0), true);
  ASSERT_TRUE(IsInfeasible(world.table.BeginMove(slice)));
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->load, 1);
  EXPECT_TRUE(world.table.AbortMove(slice).empty());
  world.table.Release(slice);
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->load, 0);
}

TEST(SliceTableTest, AParkedSliceMakesRoomAndComesBack) {
  World world({MakeHost("a", "i", 2)});
  const SliceId slice = world.table.Add(kAnn, Count(2, true)).first;
  const SliceId waiting = world.table.Add(kBob, Count(2, true)).first;
  const Outcomes outcomes = world.table.Park(slice);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].slice, waiting);
  ASSERT_TRUE(IsWaiting(world.table.BeginMove(slice)));
  world.table.Release(waiting);
  ASSERT_TRUE(IsPlaced(world.table.BeginMove(slice)));
  world.table.EndMove(slice);
  EXPECT_EQ(world.table.Find(slice)->devices.size(), 2u);
  world.table.Release(slice);
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->load, 0);
}

// Tests random requests, releases, moves and host changes against the invariants of the header.
class Storm {
 public:
  explicit Storm(int seed)
      : random_(seed), world_({MakeHost("h0", "i0", 2, 100), MakeHost("h1", "i0", 3, 100), MakeHost("k", "i1", 2)}) {}

  void Run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      Step();
      Check();
    }
    for (int owner = 1; owner <= 3; ++owner) Learn(world_.table.ReleaseOwner(SessionId(owner)));
    for (const Candidate& c : world_.table.candidates()) {
      EXPECT_EQ(c.load, 0);
      EXPECT_EQ(c.memory_reserved, 0);
      EXPECT_EQ(c.exclusive, 0);
    }
    EXPECT_TRUE(world_.table.queue().empty());
    EXPECT_TRUE(world_.table.slices().empty());
  }

 private:
  int Pick(size_t n) { return static_cast<int>(random_() % n); }

  void Step() {
    SliceTable& table = world_.table;
    const int what = Pick(12);
    if (what < 6) return Ask();
    if (what < 9 && !table.slices().empty()) {
      auto it = table.slices().begin();
      std::advance(it, Pick(table.slices().size()));
      return Learn(table.Release(SliceId(it->first)));
    }
    if (what == 9) return MoveOne();
    if (what == 10) return Learn(table.SetDrained(world_.topology.hosts()[Pick(world_.topology.hosts().size())], Pick(2) == 0));
    if (world_.topology.hosts().size() > 2 && Pick(2) == 0) {
      ASSERT_TRUE(world_.topology.RemoveHost(world_.topology.hosts()[Pick(world_.topology.hosts().size())]).ok());
    } else if (world_.topology.hosts().size() < 5) {
      ASSERT_TRUE(
          world_.topology.AddHost(MakeHost(absl::StrCat("n", hosts_++), absl::StrCat("i", Pick(2)), 1 + Pick(3), 100)).ok());
    }
    Learn(world_.Changed());
  }

  void Ask() {
    SliceRequest request = Count(1 + Pick(4), Pick(4) == 0);
    request.memory_per_device = Pick(3) * 40;
    request.hosts = static_cast<HostChoice>(Pick(3));
    if (Pick(5) == 0) request.island = absl::StrCat("i", Pick(2));
    const auto queue = world_.table.queue();
    auto [slice, answer] = world_.table.Add(SessionId(1 + Pick(3)), request);
    if (IsInfeasible(answer)) {
      EXPECT_TRUE(FittingIslands(world_.table.candidates(), request, std::nullopt).empty());
    }
    if (IsWaiting(answer)) requests_[slice] = request;
    if (IsPlaced(answer)) NobodyWasPassed(*world_.table.Find(slice), queue);
  }

  void MoveOne() {
    if (world_.table.slices().empty()) return;
    const SliceId slice = world_.table.slices().begin()->first;
    if (!IsPlaced(world_.table.BeginMove(slice))) return;
    Check();
    Learn(Pick(2) == 0 && !world_.table.Find(slice)->next.empty() ? world_.table.EndMove(slice) : world_.table.AbortMove(slice));
  }

  // No earlier request in the queue wants its island.
  void NobodyWasPassed(const Slice& slice, const std::vector<SliceId>& older) {
    for (SliceId other : older) {
      if (other >= slice.id || world_.table.Find(other) != nullptr) continue;
      const auto queue = world_.table.queue();
      if (std::find(queue.begin(), queue.end(), other) == queue.end()) continue;
      EXPECT_FALSE(FittingIslands(world_.table.candidates(), requests_[other], std::nullopt).contains(slice.island))
          << slice.id.v << " passed " << other.v;
    }
  }

  void Learn(const Outcomes& outcomes) {
    const auto queue = world_.table.queue();
    for (const Outcome& outcome : outcomes) {
      if (IsPlaced(outcome.answer)) NobodyWasPassed(*world_.table.Find(outcome.slice), queue);
      if (IsInfeasible(outcome.answer)) {
        EXPECT_TRUE(FittingIslands(world_.table.candidates(), requests_[outcome.slice], std::nullopt).empty());
      }
    }
  }

  void Check() {
    std::map<DeviceId, int> load, exclusive;
    std::map<DeviceId, int64_t> memory;
    for (const auto& [id, slice] : world_.table.slices()) {
      for (const auto* devices : {&slice.devices, &slice.next}) {
        for (DeviceId d : *devices) {
          ++load[d];
          exclusive[d] += slice.request.exclusive;
          memory[d] += slice.request.memory_per_device;
        }
      }
    }
    for (const Candidate& c : world_.table.candidates()) {
      ASSERT_EQ(c.load, load[c.id]);
      ASSERT_EQ(c.exclusive, exclusive[c.id]);
      ASSERT_EQ(c.memory_reserved, memory[c.id]);
    }
    for (const auto& [id, slice] : world_.table.slices()) {
      for (DeviceId d : slice.devices) {
        int others = 0;
        for (const auto& [other_id, other] : world_.table.slices()) {
          others += other_id != id && std::count(other.devices.begin(), other.devices.end(), d) > 0;
        }
        ASSERT_TRUE(!slice.request.exclusive || others == 0);
      }
    }
    // ST-3: no request of the queue, oldest first, can be placed outside the islands that older requests want.
    std::set<IslandId> closed;
    for (SliceId waiting : world_.table.queue()) {
      const SliceRequest& request = requests_[waiting];
      auto open = [&](IslandId island) { return !closed.contains(island); };
      ASSERT_FALSE(Place(world_.table.candidates(), {request, Against::kNow, std::nullopt, open}).has_value());
      const auto islands = FittingIslands(world_.table.candidates(), request, std::nullopt);
      ASSERT_FALSE(islands.empty());
      closed.insert(islands.begin(), islands.end());
    }
  }

  std::mt19937 random_;
  World world_;
  std::map<SliceId, SliceRequest> requests_;
  int hosts_ = 0;
};

TEST(SliceTablePropertyTest, InvariantsHoldInAStorm) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Storm(seed).Run(120);
  }
}

// A slice of a table before this one.
Slice Former(uint64_t id, SessionId owner, std::vector<DeviceId> devices, bool exclusive = false) {
  Slice slice{SliceId(id), owner, Count(static_cast<int>(devices.size()), exclusive), IslandId(0), std::move(devices)};
  return slice;
}

TEST(SliceTableTest, ARestoredSliceHasItsNumberAndItsDevices) {
  World world({MakeHost("a", "i", 2)});
  EXPECT_EQ(world.table.Restore(Former(7, kAnn, {DeviceId(1)}, true)), "");
  EXPECT_THAT(world.table.Find(SliceId(7))->devices, ElementsAre(DeviceId(1)));
  auto [next, answer] = world.table.Add(kBob, Count(1));
  EXPECT_EQ(next, SliceId(8));
  ASSERT_TRUE(IsPlaced(answer));
  EXPECT_THAT(world.table.Find(next)->devices, ElementsAre(DeviceId(0))) << "the other one is exclusive";
  EXPECT_THAT(world.table.Restore(Former(7, kBob, {DeviceId(0)})), HasSubstr("there is another slice 7"));
  EXPECT_THAT(world.table.Restore(Former(9, kBob, {DeviceId(0), DeviceId(1)})), HasSubstr("that one is exclusive"));
  EXPECT_THAT(world.table.Restore(Former(9, kAnn, {DeviceId(0)}, true)), HasSubstr("this one is exclusive"));
  world.table.Release(SliceId(7));
  EXPECT_EQ(world.table.FindCandidate(DeviceId(1))->load, 0);
}

TEST(SliceTableTest, ARestoredSliceWithoutAHostIsBrokenUntilItIsThere) {
  World world({MakeHost("a", "i", 1)});
  EXPECT_EQ(world.table.Restore(Former(1, kAnn, {DeviceId(0), DeviceId(1)})), "");
  EXPECT_TRUE(world.table.Find(SliceId(1))->broken);
  ASSERT_TRUE(world.topology.AddHost(MakeHost("b", "i", 1)).ok());
  world.Changed();
  EXPECT_FALSE(world.table.Find(SliceId(1))->broken);
  EXPECT_EQ(world.table.FindCandidate(DeviceId(1))->load, 1);
}

TEST(SliceTableTest, ASliceThatLeavesHoldsNothing) {
  World world({MakeHost("a", "i", 1)});
  Slice leaves = Former(1, kAnn, {DeviceId(0)}, true);
  leaves.leaves = true;
  EXPECT_EQ(world.table.Restore(std::move(leaves)), "");
  EXPECT_EQ(world.table.DevicesOf(kAnn), 0);
  EXPECT_EQ(world.table.Restore(Former(2, kBob, {DeviceId(0)}, true)), "") << "it got the device when the first was released";
  world.Changed();
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->load, 1);
  world.table.Release(SliceId(1));
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->load, 1);
  EXPECT_EQ(world.table.FindCandidate(DeviceId(0))->exclusive, 1);
}

TEST(SliceTableTest, RestoredRequestsWaitInTheOrderOfTheirNumbers) {
  World world({MakeHost("a", "i", 1)});
  world.table.set_held(true);
  EXPECT_TRUE(world.table.RestoreWaiting(SliceId(9), kAnn, Count(1, true)));
  EXPECT_TRUE(world.table.RestoreWaiting(SliceId(4), kBob, Count(1, true)));
  EXPECT_FALSE(world.table.RestoreWaiting(SliceId(9), kBob, Count(1)));
  EXPECT_THAT(world.table.queue(), ElementsAre(SliceId(4), SliceId(9)));
  auto [later, answer] = world.table.Add(kAnn, Count(1));
  EXPECT_EQ(later, SliceId(10));
  ASSERT_TRUE(IsWaiting(answer));
  EXPECT_THAT(std::get<MustWait>(answer).waits_for, HasSubstr("programs of the controller before"));
  EXPECT_TRUE(world.table.Recheck().empty());
  world.table.set_held(false);
  const Outcomes outcomes = world.table.Recheck();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].slice, SliceId(4));
}

TEST(SliceTableTest, ARestoredSliceMustFitItsOwnersQuota) {
  World world({MakeHost("a", "i", 4)});
  world.table.SetQuotas([](SessionId, int64_t devices) {
    return devices > 1 ? QuotaRoom{QuotaRoom::What::kNever, "at most 1 device"} : QuotaRoom{};
  });
  EXPECT_EQ(world.table.Restore(Former(1, kAnn, {DeviceId(0)})), "");
  EXPECT_THAT(world.table.Restore(Former(2, kAnn, {DeviceId(1), DeviceId(2)})), HasSubstr("at most 1 device"));
}

}  // namespace
}  // namespace pw::resource
