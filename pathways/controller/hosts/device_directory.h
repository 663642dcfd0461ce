// DeviceDirectory: the present devices (a resource::Topology), and the errors that uses of devices get which have gone. Strand-confined.
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

// Names the payload of the error of a lost host, as long as it is in the controller.
inline constexpr char kHostLost[] = "pathways.dev/host-lost";

class DeviceDirectory {
 public:
  resource::Topology& topology() { return topology_; }

  // Sets the error that uses of these devices get, until ForgetGone.
  void SetGone(const std::vector<DeviceId>& devices, const absl::Status& error);
  void ForgetGone(DeviceId first, int count);
  // The devices are there again. Returns the error of SetGone for them; OK if they never were away.
  absl::Status SetBack(const std::vector<DeviceId>& devices);

  // Returns OK if all devices are present. Else the error of SetGone for a device that is gone; INVALID_ARGUMENT for one that never
  // existed, or is listed twice.
  absl::Status Check(const std::vector<DeviceId>& devices) const;
  // Returns the devices for which a program can be compiled in place of these, of which some are lost: present ones, those of a host with the
  // same devices for each host that is lost. If there are not enough hosts, these devices themselves: the hosts that are there compile their
  // parts, and what they tell of the program is the same on all. The error of Check if none of its hosts is there.
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
