// Helpers for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "pathways/base/ids.h"
#include "pathways/resource/topology.h"
#include "pathways/sim/scenario.h"

namespace pw::sim {

// For RunUntil in tests that run all events.
inline bool Never() { return false; }

inline constexpr absl::Duration kHeartbeat = absl::Seconds(4);  // of larger clusters

// Islands of 16 hosts with one device each, without workloads or faults.
inline Scenario LargeScenario(int hosts) {
  Scenario scenario;
  scenario.hosts = hosts;
  scenario.hosts_per_island = 16;
  scenario.devices = 1;
  scenario.heartbeat = kHeartbeat;
  return scenario;
}

// Returns the number of a simulated host: "w12.1" is number 12.
inline int NumberOf(const resource::Topology& topology, HostId id) {
  int number = -1;
  const std::string name = topology.FindHost(id)->name;
  EXPECT_TRUE(absl::SimpleAtoi(std::vector<std::string>(absl::StrSplit(name.substr(1), '.'))[0], &number)) << name;
  return number;
}

}  // namespace pw::sim
