// Options of the gang scheduler, and the factory of policies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/gang/policy.h"

namespace pw::gang {

struct Options {
  std::string policy = "share";         // one of PolicyNames()
  int64_t window_ns = 10'000'000;       // limit of predicted time granted to a device and not done
  int window_gangs = 2;                 // this number of gangs may be granted to a device, for any predicted time; at least 1
  int64_t lead_ns = 3'000'000;          // with several clients, gangs beyond window_ns are granted so long before their devices are free
  int64_t default_cost_ns = 1'000'000;  // prediction for an executable that was never measured
  int64_t aging_ns = 500'000'000;       // policy "priority": a gang rises by one priority each time it has waited this long
};

std::vector<std::string> PolicyNames();
// Returns the policy that the options name. INVALID_ARGUMENT: it is unknown; the error lists the known ones.
absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(const Options& options);

}  // namespace pw::gang
