// Virtual-slice devices: ownership checks, and cleanup when a slice is released.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/programs/program_errors.h"
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {

absl::Status SessionImpl::CheckDevices(const std::vector<DeviceId>& devices) const {
  for (DeviceId id : devices) {
    const int at = id.v - virtual_first_.v;
    // Scratch ids are bound only while a move is prepared.
    const bool ours = at >= 0 && at < 2 * kScratchIds && at % kScratchIds < virtual_count_;
    if (!resource::IsVirtual(id) || ours) continue;
    return absl::InvalidArgumentError(absl::StrCat("virtual ", ToString(id), " does not belong to a slice of this client"));
  }
  return fabric_->devices().Check(devices);
}

absl::Status SessionImpl::CheckApart(const std::vector<DeviceId>& devices) const {
  std::map<DeviceId, DeviceId> by_physical;
  for (DeviceId id : devices) {
    const DeviceId physical = fabric_->topology().FindDevice(id)->physical;
    const auto [it, is_new] = by_physical.try_emplace(physical, id);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("one computation over ", ToString(it->second), " and ", ToString(id),
                                                   ", which are both on physical ", ToString(physical),
                                                   ": a computation needs a physical device for each of its parts. Use the "
                                                   "devices of one slice, or one computation for each slice"));
  }
  return absl::OkStatus();
}

void SessionImpl::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  auto concerned = [&](const std::vector<DeviceId>& of) {
    return std::any_of(of.begin(), of.end(), [&](DeviceId device) { return devices.contains(device); });
  };
  for (auto& [handle, entry] : executables_) {
    if (concerned(entry.record->devices)) entry.gone.Update(error);
  }
  for (auto& [handle, program] : programs_) {
    if (concerned(program->devices)) program->gone.Update(AtUserOf(program->program(), devices, error));
  }
  PoisonProgramResults(devices, error);
  for (const Record& record : arrays_.Records()) {
    if (record->OnDevicesLost(devices, error)) record->Free();
  }
}

}  // namespace pw::controller
