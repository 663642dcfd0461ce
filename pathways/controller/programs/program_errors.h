// Adds to an error of a whole program the first node that it concerns, in the program or in one of its branches.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/program/program.h"

namespace pw::controller {

// Names the first node that runs this executable (an index into the program's executables).
absl::Status AtUserOf(const program::Program& program, int executable, const absl::Status& status);
// Names the first node that runs on one of these devices, or makes a value for them.
absl::Status AtUserOf(const program::Program& program, const absl::flat_hash_set<DeviceId>& devices, const absl::Status& status);

}  // namespace pw::controller
