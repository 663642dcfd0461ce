// A copy of bytes in memory that other processes of this machine can be told of. Any thread.
#pragma once

#include <sys/uio.h>

#include "pathways/base/status_macros.h"
#include "pathways/net/shared_memory.h"

namespace pw::net {

// The errors of SharedMemoryFactory::Create and SharedMemory::Write.
inline absl::StatusOr<Bytes> SharedCopy(SharedMemoryFactory& factory, const Bytes& contents, uint64_t owner = 0) {
  PW_ASSIGN_OR_RETURN(SharedMemory memory, factory.Create(contents.size(), owner));
  const iovec piece = {const_cast<uint8_t*>(contents.data()), contents.size()};
  PW_RETURN_IF_ERROR(memory.Write(0, {&piece, 1}));
  return std::move(memory).Freeze();
}

}  // namespace pw::net
