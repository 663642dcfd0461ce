// Errors of a program as a whole, with the node that they are about: the first that is concerned, in the program or in a branch of it.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/program/program.h"

namespace pw::controller {

// A node that runs this executable (an index).
absl::Status AtUserOf(const program::Program& program, int executable, const absl::Status& status);
// A node that runs on one of these devices, or makes something for them.
absl::Status AtUserOf(const program::Program& program, const absl::flat_hash_set<DeviceId>& devices, const absl::Status& status);

}  // namespace pw::controller
