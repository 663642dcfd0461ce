#include "pathways/controller/hosts/device_directory.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pw::controller {

void DeviceDirectory::SetGone(const std::vector<DeviceId>& devices, const absl::Status& error) {
  auto shared = std::make_shared<const absl::Status>(error);
  for (DeviceId device : devices) gone_[device] = shared;
}

void DeviceDirectory::ForgetGone(DeviceId first, int count) {
  absl::erase_if(gone_, [&](const auto& gone) { return gone.first >= first && gone.first.v - first.v < count; });
}

absl::Status DeviceDirectory::SetBack(const std::vector<DeviceId>& devices) {
  absl::Status error;
  for (DeviceId device : devices) {
    auto gone = gone_.find(device);
    if (gone == gone_.end()) continue;
    error.Update(*gone->second);
    gone_.erase(gone);
  }
  return error;
}

absl::Status DeviceDirectory::Check(const std::vector<DeviceId>& devices) const {
  absl::flat_hash_set<DeviceId> seen;
  if (devices.size() > 1) seen.reserve(devices.size());
  for (DeviceId id : devices) {
    if (topology_.FindDevice(id) == nullptr) {
      auto gone = gone_.find(id);
      if (gone != gone_.end()) return *gone->second;
      return absl::InvalidArgumentError(
          resource::IsVirtual(id)
              ? absl::StrCat("virtual ", ToString(id), " belongs to no slice: add a slice and use its devices")
              : absl::StrCat(ToString(id), " does not exist"));
    }
    if (devices.size() > 1 && !seen.insert(id).second)
      return absl::InvalidArgumentError(absl::StrCat(ToString(id), " is listed twice"));
  }
  return absl::OkStatus();
}

// Returns a host with like devices at the same places as the lost host had those of `devices`. Null if there is none.
const resource::Host* DeviceDirectory::FindLike(HostId lost, const std::vector<DeviceId>& devices,
                                                const absl::flat_hash_set<HostId>& used) const {
  for (HostId id : topology_.hosts()) {
    const resource::Host& host = *topology_.FindHost(id);
    const auto has_like = [&](DeviceId device) {
      const resource::Device* former = topology_.FindFormerDevice(device);
      if (former == nullptr || former->host != lost) return true;
      if (former->local_ordinal >= static_cast<int>(host.devices.size())) return false;
      const resource::DeviceDescription& there = topology_.FindDevice(host.devices[former->local_ordinal])->description;
      return there.kind == former->description.kind && there.memories == former->description.memories;
    };
    if (!used.contains(id) && absl::c_all_of(devices, has_like)) return &host;
  }
  return nullptr;
}

absl::StatusOr<std::vector<DeviceId>> DeviceDirectory::StandInsFor(const std::vector<DeviceId>& devices) const {
  absl::flat_hash_set<HostId> used;
  for (DeviceId id : devices) {
    if (const resource::Device* device = topology_.FindDevice(id)) used.insert(device->host);
  }
  absl::flat_hash_map<HostId, const resource::Host*> stand_ins;
  std::vector<DeviceId> chosen;
  for (DeviceId id : devices) {
    const resource::Device* former = topology_.FindFormerDevice(id);
    if (former == nullptr) {
      chosen.push_back(id);
      continue;
    }
    const resource::Host*& host = stand_ins[former->host];
    if (host == nullptr) host = FindLike(former->host, devices, used);
    if (host == nullptr) return InPart(devices);
    used.insert(host->id);
    chosen.push_back(host->devices[former->local_ordinal]);
  }
  if (Check(chosen).ok()) return chosen;
  return Check(devices);
}

absl::StatusOr<std::vector<DeviceId>> DeviceDirectory::InPart(const std::vector<DeviceId>& devices) const {
  const bool some_there = absl::c_any_of(devices, [&](DeviceId id) { return topology_.FindDevice(id) != nullptr; });
  const bool all_known = absl::c_all_of(devices, [&](DeviceId id) { return topology_.FindNowOrFormer(id) != nullptr; });
  if (some_there && all_known) return devices;
  return Check(devices);
}

absl::StatusOr<std::string> DeviceDirectory::MemoryKind(DeviceId id, const std::string& kind) const {
  const resource::Device& device = *topology_.FindDevice(id);
  const auto& memories = device.description.memories;
  if (kind.empty()) return memories.empty() ? std::string() : memories.front().kind;
  std::vector<std::string> kinds;
  for (const auto& memory : memories) {
    if (memory.kind == kind) return kind;
    kinds.push_back(memory.kind);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(ToString(id), " has no memory of kind \"", kind, "\"; it has ", absl::StrJoin(kinds, ", ")));
}

}  // namespace pw::controller
