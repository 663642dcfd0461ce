// Copies bytes into shared memory, which other processes of this machine can open by name. Any thread.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::net {

// Returns a copy of `contents` in new shared memory. Errors are those of SharedMemoryFactory::Create and SharedMemory::Write.
absl::StatusOr<Bytes> SharedCopy(SharedMemoryFactory& factory, const Bytes& contents, uint64_t owner = 0);

// Copies `contents` into all of `memory`. Large contents are copied by a few tasks of `pool`: one thread reaches half the memory bandwidth.
// Calls `done` on a thread of the pool when no task reads `contents` any more, before `contents` is released.
void SharedCopyOn(Executor* pool, SharedMemory memory, Bytes contents, absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&> done);

}  // namespace pw::net
