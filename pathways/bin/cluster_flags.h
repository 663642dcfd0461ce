// ClusterFlags: the command-line flags of a cluster's controller, which runs in `pathways-controller` or `pathways-local`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/process/flags.h"
#include "pathways/controller/options.h"

namespace pw {

struct ClusterFlags {
  controller::ClusterOptions cluster;
  std::string dispatch = "parallel";
  absl::Duration coalesce_delay = absl::ZeroDuration();
  int64_t coalesce_bytes = 0;
  int64_t coalesce_messages = 0;
  bool checksum = false;
  bool spill = false;
  absl::Duration gang_window = absl::Milliseconds(10);
  absl::Duration gang_lead = absl::Milliseconds(3);
  absl::Duration gang_aging = absl::Milliseconds(500);
};

void DeclareCluster(ClusterFlags* options, Flags* flags);
// Converts the flags. INVALID_ARGUMENT names the wrong flag.
absl::StatusOr<controller::ClusterOptions> ClusterOptionsFrom(const ClusterFlags& options);

}  // namespace pw
