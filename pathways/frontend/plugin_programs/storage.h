// Storage: decides which files of the server's machine a client may name in a plugin program, and reads and writes them.
//
// Paths must lie in `paths_below`. Addresses of object stores ("gs://bucket/object") have no client here: such objects are files in
// `objects_in`, as objects_in/gs/bucket/object. If one of the two is empty, its kind of location is refused. Immutable: any thread.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw::frontend {

class Storage {
 public:
  Storage(std::string paths_below, std::string objects_in)
      : paths_below_(std::move(paths_below)), objects_in_(std::move(objects_in)) {}

  // Returns the file or folder of a client's location. PERMISSION_DENIED, naming the flag that opens it; INVALID_ARGUMENT for relative
  // paths.
  absl::StatusOr<std::filesystem::path> Resolve(const std::string& location) const;

 private:
  const std::string paths_below_;
  const std::string objects_in_;
};

// Both block, and name the file in their errors. Write makes missing folders, and replaces a file whole or not at all.
absl::Status WriteWholeFile(const std::filesystem::path& path, const Bytes& data);
// RESOURCE_EXHAUSTED over `limit` bytes.
absl::StatusOr<Bytes> ReadWholeFile(const std::filesystem::path& path, int64_t limit);

}  // namespace pw::frontend
