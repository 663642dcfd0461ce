// SessionDevices: the devices that a session may use: those of the cluster, and the virtual ones of its own slices. Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/controller/hosts/device_directory.h"

namespace pw::controller {

// Returns the spec with other devices: `map` of each.
buffers::ArraySpec OnDevices(const buffers::ArraySpec& spec, absl::FunctionRef<DeviceId(DeviceId)> map);

class SessionDevices {
 public:
  // `directory` must outlive this.
  explicit SessionDevices(DeviceDirectory* directory) : directory_(directory) {}

  // Sets the client's virtual devices: `count` ids from `first` on.
  void SetVirtual(DeviceId first, int count) { virtual_first_ = first, virtual_count_ = count; }

  // Sets the question that is asked before the session uses physical devices that it has not used before, without a slice; null: it
  // may use all.
  using MayUse = std::function<absl::Status(const std::vector<DeviceId>& devices)>;
  void SetMayUse(MayUse may_use) { may_use_ = std::move(may_use); }

  // Makes uses of these devices fail with `error` while the session's programs are loaded on the new host of their seat.
  void SetLoading(const std::vector<DeviceId>& devices, const absl::Status& error);
  void SetLoaded(const absl::flat_hash_set<DeviceId>& devices);

  // Returns DeviceDirectory::Check; virtual devices must also be this client's own, and its user's quota must allow the others.
  absl::Status CheckPresent(const std::vector<DeviceId>& devices) const;
  // Like CheckPresent; the session's programs must also have been loaded there (SetLoading).
  absl::Status Check(const std::vector<DeviceId>& devices) const;
  // Checks that the devices of one computation are on different physical devices. REQUIRES: Check.
  absl::Status CheckApart(const std::vector<DeviceId>& devices) const;
  // Returns the physical devices that these are bound to; those that are not present stay as they are.
  std::vector<DeviceId> PhysicalOf(const std::vector<DeviceId>& devices) const;
  // Returns the id under which a virtual device is bound to its new place while a move is prepared.
  static DeviceId ScratchOf(DeviceId device) { return DeviceId(device.v + kScratchIds); }

 private:
  static constexpr int kScratchIds = 1 << 15;  // from a virtual device's id to its scratch id; pools are no larger

  absl::Status Ask(const std::vector<DeviceId>& devices) const;

  DeviceDirectory* const directory_;
  MayUse may_use_;
  mutable std::vector<bool> used_;  // by number: the physical devices for which it was asked
  DeviceId virtual_first_;
  int virtual_count_ = 0;
  absl::flat_hash_map<DeviceId, std::shared_ptr<const absl::Status>> loading_;
};

}  // namespace pw::controller
