// Forwards shared memory from one process to another: the process in between keeps a descriptor, through which the third process opens it.
//
// Descriptors are scarce: one is kept only if its number is small, which limits how many are open.
// Any thread.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::net {

inline constexpr int kDescriptorsForPassingOn = 512;

// Opens like OpenShared, not exclusive. NameOf returns a name for the result if the descriptor's number is below `descriptors`.
absl::StatusOr<Bytes> OpenToPassOn(const SharedName& name, int descriptors = kDescriptorsForPassingOn);

}  // namespace pw::net
