// Storage: decides which files of the server's machine a client may name in a plugin program, and reads and writes them.
//
// Paths must lie in `paths_below`. Addresses of object stores ("gs://bucket/object") have no client here: such objects are files in
// `objects_in`, as objects_in/gs/bucket/object. If one of the two is empty, its kind of location is refused.
//
// A client may make links and pipes in such a folder, also between a check and the use of a file. So files are opened part by part below the
// folder, no link is followed, and only regular files are read and written.
//
// Immutable: any thread.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/base/bytes.h"

namespace pw::frontend {

// A folder that a client has named.
struct StoredFolder {
  std::filesystem::path root;   // the operator's: links in this path are followed
  std::filesystem::path below;  // from there; empty: the root itself

  std::filesystem::path path() const { return below.empty() ? root : root / below; }
  StoredFolder operator/(const std::filesystem::path& more) const { return {root, below / more}; }
};

class Storage {
 public:
  Storage(std::string paths_below, std::string objects_in)
      : paths_below_(std::move(paths_below)), objects_in_(std::move(objects_in)) {}

  // Returns the folder of a client's location. PERMISSION_DENIED, naming the flag that opens it; INVALID_ARGUMENT for relative paths.
  absl::StatusOr<StoredFolder> Resolve(const std::string& location) const;

 private:
  const std::string paths_below_;
  const std::string objects_in_;
};

// Both block, and name the file in their errors. PERMISSION_DENIED: a link, or no regular file. Write makes missing folders, and replaces a
// file whole or not at all.
absl::Status WriteWholeFile(const StoredFolder& folder, const std::string& file, const Bytes& data);
// NOT_FOUND; RESOURCE_EXHAUSTED over `limit` bytes.
absl::StatusOr<Bytes> ReadWholeFile(const StoredFolder& folder, const std::string& file, int64_t limit);

}  // namespace pw::frontend
