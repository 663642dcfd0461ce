// Storage: which files of the controller's machine a client may name in a plugin program, and reading and writing them.
//
// Paths must lie in `paths_below`. Addresses of object stores ("gs://bucket/object") have no client here: they are kept as files in
// `objects_in`, as objects_in/gs/bucket/object. Where an option is empty, that kind of location is closed. Immutable: any thread.
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

  // The file or folder that a client's location means. PERMISSION_DENIED, saying which flag opens it; INVALID_ARGUMENT for relative paths.
  absl::StatusOr<std::filesystem::path> Resolve(const std::string& location) const;

 private:
  const std::string paths_below_;
  const std::string objects_in_;
};

// Both block, and name the file in their errors. Write makes the folders it needs, and replaces a file whole or not at all.
absl::Status WriteWholeFile(const std::filesystem::path& path, const Bytes& data);
// RESOURCE_EXHAUSTED over `limit` bytes.
absl::StatusOr<Bytes> ReadWholeFile(const std::filesystem::path& path, int64_t limit);

}  // namespace pw::frontend
