// DeviceDirectory: the present devices (a resource::Topology), and the errors that uses of devices get which have gone. Strand-confined.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

class DeviceDirectory {
 public:
  resource::Topology& topology() { return topology_; }

  // Sets the error that uses of these devices get, until ForgetGone.
  void SetGone(const std::vector<DeviceId>& devices, const absl::Status& error);
  void ForgetGone(DeviceId first, int count);

  // Returns OK if all devices are present. Else the error of SetGone for a device that is gone; INVALID_ARGUMENT for one that never
  // existed, or is listed twice.
  absl::Status Check(const std::vector<DeviceId>& devices) const;
  // Returns the memory kind of a device; "" means its default one. INVALID_ARGUMENT lists the kinds that it has. REQUIRES: the device is
  // present.
  absl::StatusOr<std::string> MemoryKind(DeviceId device, const std::string& kind) const;

 private:
  resource::Topology topology_;
  absl::flat_hash_map<DeviceId, std::shared_ptr<const absl::Status>> gone_;
};

}  // namespace pw::controller
