// Reads a shard in place if device memory is host memory, so that data to send is not copied first.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

// Below this size a copy costs less than waiting until the shard is ready.
inline constexpr int64_t kViewBytes = 256 << 10;

// Calls `then` once with the shard's contents, dense and row-major, or with the reason why they cannot be read in place. Holds the task
// until the last reference to the bytes is gone, on any thread; until then the task counts as a reader, so the buffer is not taken over.
// Then the task runs again. REQUIRES: called from the task's body, which returns kWait.
void ReadInPlace(const WorkerContext* context, DeviceArrays* arrays, const Hazards::TaskRef& task, const ShardRef& shard,
                 absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> then);

}  // namespace pw::worker
