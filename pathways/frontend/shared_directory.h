// Files that clients on this machine leave for the server instead of sending a host buffer over the network.
//
// The files are "lt_<handle>" in the configured directory. Handles of different clients may be equal, so two clients cannot share
// a directory. A client may name a folder in it for its own files, as initialization_data["pathways_shared_subdirectory"]. It
// chooses nothing else: no link is followed, and only a regular file of exactly the announced size is read. The server removes a
// file once it has read it (the stock client leaves it behind).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::frontend {

// Opens the directory, and returns its descriptor for the functions below. INVALID_ARGUMENT if it is not a directory.
absl::StatusOr<int> OpenSharedDirectory(const std::string& path);

// The key of initialization_data under which a client names its own folder: up to 128 letters, digits, '-' and '_'.
inline constexpr char kSharedSubdirectoryKey[] = "pathways_shared_subdirectory";

// Takes the file and removes its name. `subdirectory` may be empty. Blocks. NOT_FOUND, INVALID_ARGUMENT (not a plain file of that
// size, a bad folder name), RESOURCE_EXHAUSTED (no memory), naming the file.
//
// A file in memory (tmpfs) that no other process has open is taken without a copy: workers of this machine map it too.
absl::StatusOr<Bytes> TakeSharedFile(int directory, const std::string& subdirectory, uint64_t handle, int64_t size,
                                     net::SharedMemoryFactory* factory);

// Removes the file unread. Blocks.
void RemoveSharedFile(int directory, const std::string& subdirectory, uint64_t handle);

// Removes the folder of a client that has gone, with the files that it left. Does nothing if the client had no folder. Blocks.
void RemoveClientFolder(int directory, const std::string& subdirectory);

}  // namespace pw::frontend
