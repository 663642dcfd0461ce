#include "pathways/controller/hosts/device_directory.h"

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
