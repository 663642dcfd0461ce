// A host has taken the seat of one that was lost (resource/topology.h, TO-7).
//
// This session's programs for the devices there are compiled again, for the new host; so are those that were compiled on
// stand-ins for the empty seat (session_executables.cc). Until all are loaded, the devices stay lost for this session. So a
// client never finds a device there without its own programs.
//
// The arrays that were lost stay lost.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/session_impl.h"

namespace pw::controller {

struct SessionImpl::Reloading {
  absl::flat_hash_set<DeviceId> devices;
  std::map<Handle, Handle> twins;  // by the executable that they replace; 0: it could not be compiled
  size_t left = 0;                 // compilations under way
};

void SessionImpl::OnSeatTaken(const std::vector<DeviceId>& devices, const absl::Status& until_loaded) {
  devices_.SetLoading(devices, until_loaded);
  if (reloading_ == nullptr) reloading_ = std::make_shared<Reloading>();
  reloading_->devices.insert(devices.begin(), devices.end());
  if (reloading_->left == 0) LoadOnSeats();
}

// Returns the executables to compile again: those on these devices that a host lacks, if all of their devices are there.
std::vector<Handle> SessionImpl::MissingOn(const absl::flat_hash_set<DeviceId>& seats) {
  std::vector<Handle> missing;
  for (Handle handle : executable_table_.Handles()) {
    const ExecutableEntry& entry = *executable_table_.FindOrNull(handle);
    const program::Executable& record = *entry.record;
    const auto present = [this](HostId host) { return fabric_->outbox().HasHost(host); };
    const bool loaded = entry.unloaded.ok() && std::all_of(record.hosts.begin(), record.hosts.end(), present);
    if (loaded || !entry.gone.ok() || !fabric_->devices().Check(record.devices).ok()) continue;
    const std::vector<DeviceId> physical = devices_.PhysicalOf(record.devices);
    if (std::any_of(physical.begin(), physical.end(), [&](DeviceId device) { return seats.contains(device); }))
      missing.push_back(handle);
  }
  return missing;
}

void SessionImpl::LoadOnSeats() {
  const std::shared_ptr<Reloading> r = reloading_;
  std::vector<Handle> missing = MissingOn(r->devices);
  std::erase_if(missing, [&](Handle handle) { return r->twins.contains(handle); });
  if (missing.empty()) return OpenSeats();
  r->left = missing.size();
  for (Handle handle : missing) {
    r->twins[handle] = 0;
    Compile(*executable_table_.FindOrNull(handle)->source,
            [this, alive = std::weak_ptr<bool>(alive_), r, handle](absl::StatusOr<std::shared_ptr<const ExecutableInfo>> info) {
              if (alive.expired()) return;
              ExecutableEntry* const entry = executable_table_.FindOrNull(handle);
              if (info.ok()) r->twins[handle] = (*info)->handle;
              if (!info.ok() && entry != nullptr) entry->unloaded = info.status();
              if (--r->left == 0) LoadOnSeats();  // executables and seats that were added meanwhile
            });
  }
}

// The devices were lost again. Compilations that were under way for them fail by themselves.
void SessionImpl::StopLoading(const absl::flat_hash_set<DeviceId>& lost) {
  if (reloading_ == nullptr) return;
  for (DeviceId device : lost) reloading_->devices.erase(device);
  devices_.SetLoaded(lost);
}

// Replaces the executables and programs, and lets the client use the devices.
void SessionImpl::OpenSeats() {
  const std::shared_ptr<Reloading> r = std::exchange(reloading_, nullptr);
  const std::shared_ptr<void> old_executables = executables_.Replace(r->twins);
  devices_.SetLoaded(r->devices);
  const auto concerned = [&](const ProgramEntry& entry) {
    const bool there =
        std::any_of(entry.devices.begin(), entry.devices.end(), [&](DeviceId device) { return r->devices.contains(device); });
    return there && devices_.Check(entry.devices).ok();
  };
  programs_.MakeAnew(concerned, old_executables);
}

}  // namespace pw::controller
