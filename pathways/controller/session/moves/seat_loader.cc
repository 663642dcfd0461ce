#include "pathways/controller/session/moves/seat_loader.h"

#include <algorithm>
#include <utility>

namespace pw::controller {

struct SeatLoader::Reloading {
  absl::flat_hash_set<DeviceId> devices;
  SessionExecutables::Twins twins;  // by the executable that they replace; 0: it could not be compiled
  size_t left = 0;                  // compilations under way
};

void SeatLoader::OnSeatTaken(const std::vector<DeviceId>& devices, const absl::Status& until_loaded) {
  context_->devices().SetLoading(devices, until_loaded);
  if (reloading_ == nullptr) reloading_ = std::make_shared<Reloading>();
  reloading_->devices.insert(devices.begin(), devices.end());
  if (reloading_->left == 0) Load();
}

std::vector<Handle> SeatLoader::MissingOn(const absl::flat_hash_set<DeviceId>& seats) const {
  std::vector<Handle> missing;
  for (Handle handle : executable_table_->Handles()) {
    const ExecutableEntry& entry = *executable_table_->FindOrNull(handle);
    const program::Executable& record = *entry.record;
    const auto present = [this](HostId host) { return context_->fabric()->outbox().HasHost(host); };
    const bool loaded = entry.unloaded.ok() && std::all_of(record.hosts.begin(), record.hosts.end(), present);
    if (loaded || !entry.gone.ok() || !context_->fabric()->devices().Check(record.devices).ok()) continue;
    const std::vector<DeviceId> physical = context_->devices().PhysicalOf(record.devices);
    if (std::any_of(physical.begin(), physical.end(), [&](DeviceId device) { return seats.contains(device); }))
      missing.push_back(handle);
  }
  return missing;
}

void SeatLoader::Load() {
  const std::shared_ptr<Reloading> r = reloading_;
  std::vector<Handle> missing = MissingOn(r->devices);
  std::erase_if(missing, [&](Handle handle) { return r->twins.contains(handle); });
  if (missing.empty()) return Open();
  r->left = missing.size();
  for (Handle handle : missing) {
    r->twins[handle] = 0;
    executables_->Compile(
        *executable_table_->FindOrNull(handle)->source,
        [this, alive = context_->alive(), r, handle](absl::StatusOr<std::shared_ptr<const ExecutableInfo>> info) {
          if (alive.expired()) return;
          ExecutableEntry* const entry = executable_table_->FindOrNull(handle);
          if (info.ok()) r->twins[handle] = (*info)->handle;
          if (!info.ok() && entry != nullptr) entry->unloaded = info.status();
          if (--r->left == 0) Load();  // executables and seats that were added meanwhile
        });
  }
}

void SeatLoader::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost) {
  if (reloading_ == nullptr) return;
  for (DeviceId device : lost) reloading_->devices.erase(device);
  context_->devices().SetLoaded(lost);
}

void SeatLoader::Open() {
  const std::shared_ptr<Reloading> r = std::exchange(reloading_, nullptr);
  const std::shared_ptr<void> old_executables = executables_->Replace(r->twins);
  context_->devices().SetLoaded(r->devices);
  const auto concerned = [&](const ProgramEntry& entry) {
    const bool there =
        std::any_of(entry.devices.begin(), entry.devices.end(), [&](DeviceId device) { return r->devices.contains(device); });
    return there && context_->devices().Check(entry.devices).ok();
  };
  programs_->MakeAnew(concerned, old_executables);
}

}  // namespace pw::controller
