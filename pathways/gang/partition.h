// Partition: groups the devices of an island into atoms. An atom's devices belong to exactly the same lanes (sets of devices in
// use). IslandScheduler keeps counts per atom instead of per device.
//
// A lane is a list of atoms. If all gangs run on the whole island, there is one atom, however many devices the island has.
//
// Invariants:
//   PT-1  two devices are in one atom exactly if every lane contains both or neither
//   PT-2  atoms and lanes are only added; an atom that is split keeps its number for the devices that are not in the new lane
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "pathways/gang/ids.h"

namespace pw::gang {

class Partition {
 public:
  using Atom = uint32_t;

  // Returns the lane of exactly these devices; makes it if it is new. A new lane may split atoms. For each split, once atom `to`
  // exists, it calls `split(from, to)`, in which the caller copies its state of `from`. `devices`: in any order, each once.
  LaneId Lane(absl::Span<const DeviceId> devices, absl::FunctionRef<void(Atom from, Atom to)> split);

  size_t lanes() const { return lanes_.size(); }
  size_t atoms() const { return atoms_.size(); }
  const std::vector<DeviceId>& devices(LaneId lane) const { return lanes_[lane.v].devices; }  // ascending
  absl::Span<const Atom> atoms_of(LaneId lane) const { return lanes_[lane.v].atoms; }

 private:
  struct LaneRecord {
    std::vector<DeviceId> devices;
    absl::InlinedVector<Atom, 2> atoms;
  };
  struct AtomRecord {
    size_t size = 0;
    std::vector<LaneId> lanes;
  };
  absl::flat_hash_map<std::vector<DeviceId>, LaneId> by_devices_;
  absl::flat_hash_map<DeviceId, Atom> atom_of_;
  std::vector<LaneRecord> lanes_;
  std::vector<AtomRecord> atoms_;
};

}  // namespace pw::gang
