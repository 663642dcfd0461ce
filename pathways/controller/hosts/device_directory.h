// DeviceDirectory: the present devices (a resource::Topology), and the errors for uses of devices that are gone. Strand-confined.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

// The name of the payload that marks the error of a lost host, inside the controller.
inline constexpr char kHostLost[] = "pathways.dev/host-lost";

class DeviceDirectory {
 public:
  resource::Topology& topology() { return topology_; }

  // Sets the error that uses of these devices get, until ForgetGone.
  void SetGone(const std::vector<DeviceId>& devices, const absl::Status& error);
  void ForgetGone(DeviceId first, int count);
  // Notes that the devices are there again. Returns their error from SetGone; OK if they never were away.
  absl::Status SetBack(const std::vector<DeviceId>& devices);

  // Returns OK if all devices are present. Else the error of SetGone for a device that is gone; INVALID_ARGUMENT for one that never
  // existed, or is listed twice.
  absl::Status Check(const std::vector<DeviceId>& devices) const;
  // Returns present devices for which a program over `devices`, of which some are lost, can be compiled. Another host with the
  // same devices stands in for each lost host. If there are too few hosts, returns `devices`: the present hosts compile their
  // parts, and their reports on the program are the same as those of all. Returns the error of Check if no host is present.
  absl::StatusOr<std::vector<DeviceId>> StandInsFor(const std::vector<DeviceId>& devices) const;
  // Returns the memory kind of a device; "" means its default one. INVALID_ARGUMENT lists the kinds that it has. REQUIRES: the device is
  // present.
  absl::StatusOr<std::string> MemoryKind(DeviceId device, const std::string& kind) const;

 private:
  absl::StatusOr<std::vector<DeviceId>> InPart(const std::vector<DeviceId>& devices) const;
  const resource::Host* FindLike(HostId lost, const std::vector<DeviceId>& devices,
                                 const absl::flat_hash_set<HostId>& used) const;

  resource::Topology topology_;
  absl::flat_hash_map<DeviceId, std::shared_ptr<const absl::Status>> gone_;
};

}  // namespace pw::controller
