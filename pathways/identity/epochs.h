// Epochs: each controller of a cluster has a greater epoch than all before it. So hosts recognize a controller that has been replaced and
// wakes up, and the controller notices it itself (worker.proto, Epochs).
//
// An epoch is the time of the controller's start in microseconds since 1970. If the cluster has a folder (ClusterIdentity), the last epoch is
// in its file `epoch`, and the next one is greater even if the clock has been set back. Without a folder only the clock orders controllers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pw::identity {

// Returns the epoch for a controller that starts. `folder` empty: there is none.
absl::StatusOr<uint64_t> NextEpoch(const std::string& folder, absl::Time now);
// Writes the epoch into the folder, if there is one. The controller before then ends. Call it once this one listens: one that cannot start
// must not end another.
absl::Status TakeEpoch(const std::string& folder, uint64_t epoch);
// Returns the epoch in the folder; 0: none was taken. INVALID_ARGUMENT: the file has something else.
absl::StatusOr<uint64_t> ReadEpoch(const std::string& folder);

}  // namespace pw::identity
