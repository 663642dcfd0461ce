// Reading a shard where it lies, if the device's memory is the host's: what is to be sent is not copied first.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/worker/core.h"

namespace pw::worker {

// Below this a copy costs less than waiting for the shard to be ready.
inline constexpr int64_t kViewBytes = 256 << 10;

// Calls `then` once with the contents of the shard, dense and row-major, or with why they are not to be had so. The task is held
// until the last of the bytes has gone, on whatever thread, and counts as a reader of the shard meanwhile: nobody takes the buffer over.
// Then it runs again. REQUIRES: called from the task's body, which returns kWait.
void ReadInPlace(Core* core, const Hazards::TaskRef& task, const ShardRef& shard,
                 absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> then);

}  // namespace pw::worker
