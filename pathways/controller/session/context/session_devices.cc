#include "pathways/controller/session/context/session_devices.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {

buffers::ArraySpec OnDevices(const buffers::ArraySpec& spec, absl::FunctionRef<DeviceId(DeviceId)> map) {
  std::vector<DeviceId> devices;
  for (DeviceId device : spec.sharding.devices()) devices.push_back(map(device));
  buffers::ArraySpec there = spec;
  there.sharding = spec.sharding.WithDevices(std::move(devices));
  return there;
}

void SessionDevices::SetLoading(const std::vector<DeviceId>& devices, const absl::Status& error) {
  const auto shared = std::make_shared<const absl::Status>(error);
  for (DeviceId device : devices) loading_[device] = shared;
}

void SessionDevices::SetLoaded(const absl::flat_hash_set<DeviceId>& devices) {
  for (DeviceId device : devices) loading_.erase(device);
}

absl::Status SessionDevices::CheckPresent(const std::vector<DeviceId>& devices) const {
  for (DeviceId id : devices) {
    const int at = id.v - virtual_first_.v;
    // Scratch ids are bound only while a move is prepared.
    const bool ours = at >= 0 && at < 2 * kScratchIds && at % kScratchIds < virtual_count_;
    if (!resource::IsVirtual(id) || ours) continue;
    return absl::InvalidArgumentError(absl::StrCat("virtual ", ToString(id), " does not belong to a slice of this client"));
  }
  PW_RETURN_IF_ERROR(directory_->Check(devices));
  return may_use_ == nullptr ? absl::OkStatus() : Ask(devices);
}

absl::Status SessionDevices::Ask(const std::vector<DeviceId>& devices) const {
  std::vector<DeviceId> more;
  for (DeviceId id : devices) {
    if (resource::IsVirtual(id)) continue;
    const size_t at = static_cast<size_t>(id.v);
    if (at >= used_.size() || !used_[at]) more.push_back(id);
  }
  if (more.empty()) return absl::OkStatus();
  PW_RETURN_IF_ERROR(may_use_(more));
  for (DeviceId id : more) {
    const size_t at = static_cast<size_t>(id.v);
    if (at >= used_.size()) used_.resize(at + 1);
    used_[at] = true;
  }
  return absl::OkStatus();
}

absl::Status SessionDevices::Check(const std::vector<DeviceId>& devices) const {
  PW_RETURN_IF_ERROR(CheckPresent(devices));
  if (loading_.empty()) return absl::OkStatus();
  for (DeviceId id : devices) {
    const auto loading = loading_.find(directory_->topology().FindDevice(id)->physical);
    if (loading != loading_.end()) return *loading->second;
  }
  return absl::OkStatus();
}

absl::Status SessionDevices::CheckApart(const std::vector<DeviceId>& devices) const {
  std::map<DeviceId, DeviceId> by_physical;
  for (DeviceId id : devices) {
    const DeviceId physical = directory_->topology().FindDevice(id)->physical;
    const auto [it, is_new] = by_physical.try_emplace(physical, id);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("one computation over ", ToString(it->second), " and ", ToString(id),
                                                   ", which are both on physical ", ToString(physical),
                                                   ": a computation needs a physical device for each of its parts. Use the "
                                                   "devices of one slice, or one computation for each slice"));
  }
  return absl::OkStatus();
}

std::vector<DeviceId> SessionDevices::PhysicalOf(const std::vector<DeviceId>& devices) const {
  std::vector<DeviceId> physical;
  for (DeviceId device : devices) {
    const resource::Device* found = directory_->topology().FindDevice(device);
    physical.push_back(found == nullptr ? device : found->physical);
  }
  return physical;
}

}  // namespace pw::controller
