#include "pathways/gang/partition.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pw::gang {

LaneId Partition::Lane(absl::Span<const DeviceId> devices, absl::FunctionRef<void(Atom, Atom)> split) {
  std::vector<DeviceId> sorted(devices.begin(), devices.end());
  std::sort(sorted.begin(), sorted.end());
  const LaneId lane(static_cast<uint32_t>(lanes_.size()));
  if (auto [it, is_new] = by_devices_.try_emplace(sorted, lane); !is_new) return it->second;

  constexpr Atom kNone = UINT32_MAX;  // for devices that no lane contains yet
  std::map<Atom, std::vector<DeviceId>> touched;
  for (DeviceId device : sorted) touched[atom_of_.try_emplace(device, kNone).first->second].push_back(device);
  LaneRecord record;
  for (auto& [atom, members] : touched) {
    if (atom != kNone && members.size() == atoms_[atom].size) {
      atoms_[atom].lanes.push_back(lane);
      record.atoms.push_back(atom);
      continue;
    }
    const Atom part = static_cast<Atom>(atoms_.size());
    atoms_.push_back({members.size(), {}});
    for (DeviceId device : members) atom_of_[device] = part;
    if (atom != kNone) {
      atoms_[atom].size -= members.size();
      atoms_[part].lanes = atoms_[atom].lanes;
      for (LaneId other : atoms_[part].lanes) lanes_[other.v].atoms.push_back(part);
      split(atom, part);
    }
    atoms_[part].lanes.push_back(lane);
    record.atoms.push_back(part);
  }
  record.devices = std::move(sorted);
  lanes_.push_back(std::move(record));
  return lane;
}

}  // namespace pw::gang
