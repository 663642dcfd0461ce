// Helpers for tests of planners: a topology of hosts with CPU devices, and a recorder of the commands that a planner adds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

// Returns a topology of hosts h0, h1, ..., each an island of its own with `devices` devices. Device ids count through all hosts.
inline resource::Topology TestTopology(int hosts, int devices) {
  resource::Topology topology;
  std::vector<resource::HostDescription> descriptions;
  for (int h = 0; h < hosts; ++h) {
    resource::HostDescription host{absl::StrCat("h", h), absl::StrCat("island", h), "cpu", "test", {}};
    for (int d = 0; d < devices; ++d) {
      resource::DeviceDescription device;
      device.kind = "cpu";
      device.memories = {{"device", 0}, {"pinned_host", 1}};
      host.devices.push_back(device);
    }
    descriptions.push_back(host);
  }
  EXPECT_TRUE(topology.FormCluster(descriptions).ok());
  return topology;
}

inline std::vector<DeviceId> DeviceRange(int first, int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back(DeviceId(first + i));
  return devices;
}

// Provides an outbox, ops and transfer ids to planners. Commands returns the commands that they added since the last call, by host.
struct Recorder {
  explicit Recorder(const resource::Topology& topology) {
    for (HostId host : topology.hosts()) outbox.AddHost(host);
  }
  std::map<HostId, std::vector<::pathways::v1::Command>> Commands() {
    std::map<HostId, std::vector<::pathways::v1::Command>> commands;
    outbox.Flush([&](HostId host, std::string header, std::vector<Bytes> payload) {
      ::pathways::v1::ToWorker batch;
      EXPECT_TRUE(batch.ParseFromString(header));
      for (auto& c : *batch.mutable_commands()) commands[host].push_back(std::move(c));
    });
    return commands;
  }
  OpId NameOp(HostId) { return OpId(next_op++); }

  Outbox outbox;
  uint64_t next_op = 1;
  uint64_t next_transfer = 100;
};

}  // namespace pw::dispatch
