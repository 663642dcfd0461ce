// Forwards shared memory from one process to another: the process in between keeps a descriptor, through which the third process opens it.
//
// Descriptors are scarce. One is kept only if its number is small, which bounds the number of open ones.
// Any thread.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"

namespace pw::net {

inline constexpr int kDescriptorsForPassingOn = 512;

// Like OpenShared, not exclusive. NameOf knows the result if the descriptor's number is below `descriptors`.
absl::StatusOr<Bytes> OpenToPassOn(const SharedName& name, int descriptors = kDescriptorsForPassingOn);

}  // namespace pw::net
