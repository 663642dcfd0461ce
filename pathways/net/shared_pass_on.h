// Shared memory of another process that a third one shall open: who stands between them keeps a descriptor of it.
//
// Descriptors are few, so one is kept only while its number is small: then no more than so many are open, whatever they are.
// Any thread.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"

namespace pw::net {

inline constexpr int kDescriptorsForPassingOn = 512;

// As OpenShared, not exclusive; NameOf knows the result, unless `descriptors` or more are open.
absl::StatusOr<Bytes> OpenToPassOn(const SharedName& name, int descriptors = kDescriptorsForPassingOn);

}  // namespace pw::net
