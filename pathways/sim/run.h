// RunScenario: runs one scenario with one seed, from an empty world to the last check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pathways/sim/scenario.h"

namespace pw::sim {

struct Report {
  std::string scenario;
  uint64_t seed = 0;
  uint64_t hash = 0;  // of everything that happened
  double simulated_seconds = 0;
  double work_seconds = 0;  // of these, until the last workload has finished
  uint64_t events = 0;
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t bytes_between_islands = 0;
  uint64_t repeated = 0;       // commands to hosts
  uint64_t after_settled = 0;  // commands of requests that were settled (repeats.h)
  uint64_t requests = 0;
  uint64_t reads = 0;
  uint64_t errors = 0;  // excused by a fault
  std::vector<std::string> violations;
};

Report RunScenario(const Scenario& scenario, uint64_t seed);
std::string ToJson(const Report& report);

}  // namespace pw::sim
