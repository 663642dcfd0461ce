// Partition: the devices of an island, grouped into atoms: devices that belong to exactly the same lanes (device sets in use).
//
// Whatever is counted for each device is the same for all devices of an atom, so it is kept once. A lane is a list of atoms: one,
// where all computations run on the whole island, however many devices that is.
//
// Invariants:
//   PT-1  two devices are in one atom exactly if every lane has both or neither
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

  // The lane of exactly these devices, made if it is new. A new lane may split atoms: then `split(from, to)` is called for each
  // once `to` exists, so that the caller copies what it keeps for `from`. `devices` in any order, without repetition.
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
