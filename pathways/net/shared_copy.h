// Copies of bytes in memory that other processes of this machine can be told of. Any thread.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/base/executor.h"
#include "pathways/net/shared_memory.h"

namespace pw::net {

// The errors of SharedMemoryFactory::Create and SharedMemory::Write.
absl::StatusOr<Bytes> SharedCopy(SharedMemoryFactory& factory, const Bytes& contents, uint64_t owner = 0);

// A copy into all of `memory` by a few tasks of `pool`, where it is large: one thread copies at half of what the machine's memory does.
// `done` is called on a thread of the pool, once no task reads `contents` any more, and before they are let go of.
void SharedCopyOn(Executor* pool, SharedMemory memory, Bytes contents, absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done);

}  // namespace pw::net
