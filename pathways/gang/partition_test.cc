#include "pathways/gang/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"  // after gtest.h, which it needs

namespace pw::gang {
namespace {

constexpr int kDevices = 8;

RC_GTEST_PROP(Partition, AtomsAreTheDevicesThatBelongToTheSameLanes, ()) {
  Partition partition;
  std::map<LaneId, std::set<int>> lanes;
  const int count = *rc::gen::inRange(1, 12);
  for (int i = 0; i < count; ++i) {
    const int bits = *rc::gen::inRange(1, 1 << kDevices);
    std::set<int> members;
    for (int d = 0; d < kDevices; ++d) {
      if ((bits >> d & 1) != 0) members.insert(d);
    }
    std::vector<DeviceId> devices;
    for (int d : members) devices.push_back(DeviceId(d));
    const LaneId lane = partition.Lane(devices, [](Partition::Atom from, Partition::Atom to) { RC_ASSERT(from != to); });
    if (lanes.contains(lane)) RC_ASSERT(lanes[lane] == members);
    lanes[lane] = members;
  }
  RC_ASSERT(lanes.size() == partition.lanes());
  // Two lanes share an atom exactly if they share a device, and devices with equal membership are counted once.
  std::set<std::set<LaneId>> memberships;
  for (int d = 0; d < kDevices; ++d) {
    std::set<LaneId> of;
    for (const auto& [lane, members] : lanes) {
      if (members.contains(d)) of.insert(lane);
    }
    if (!of.empty()) memberships.insert(of);
  }
  RC_ASSERT(memberships.size() == partition.atoms());
  for (const auto& [a, of_a] : lanes) {
    for (const auto& [b, of_b] : lanes) {
      std::set<std::set<LaneId>> common;
      for (const auto& m : memberships) {
        if (m.contains(a) && m.contains(b)) common.insert(m);
      }
      const auto atoms_a = partition.atoms_of(a), atoms_b = partition.atoms_of(b);
      const std::set<Partition::Atom> set_b(atoms_b.begin(), atoms_b.end());
      RC_ASSERT(static_cast<size_t>(std::count_if(atoms_a.begin(), atoms_a.end(), [&](auto x) { return set_b.contains(x); })) ==
                common.size());
    }
  }
}

TEST(Partition, OneAtomForTheWholeIslandHoweverLarge) {
  Partition partition;
  std::vector<DeviceId> devices;
  for (int d = 0; d < 2048; ++d) devices.push_back(DeviceId(d));
  const LaneId lane = partition.Lane(devices, [](auto, auto) { FAIL(); });
  EXPECT_EQ(partition.atoms_of(lane).size(), 1u);
}

}  // namespace
}  // namespace pw::gang
