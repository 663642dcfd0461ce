// Files that clients on this machine leave for the server instead of sending a host buffer over the network.
//
// A client chooses nothing but the number in the name: only "lt_<handle>" in the configured directory is ever opened, no link is
// followed, and only a regular file of exactly the announced size is read.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw::frontend {

// A descriptor of the directory, for ReadSharedFile. INVALID_ARGUMENT if it is not a directory.
absl::StatusOr<int> OpenSharedDirectory(const std::string& path);

// Blocks. NOT_FOUND, INVALID_ARGUMENT (not a plain file of that size), RESOURCE_EXHAUSTED (no memory), naming the file.
absl::StatusOr<Bytes> ReadSharedFile(int directory, uint64_t handle, int64_t size);

// Memory for `size` bytes, or RESOURCE_EXHAUSTED.
absl::StatusOr<AlignedBytes> TryAllocate(int64_t size);

}  // namespace pw::frontend
