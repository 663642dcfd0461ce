// Files that clients name: decides which files a client may use, and reads and writes them.
//
// A client may make links and pipes in a folder that it may use, also between a check and the use of a file. So files are opened part by part
// below the folder, no link is followed, and only regular files are read and written.
//
// All functions but Roots::Resolve block. Errors name the file. PERMISSION_DENIED: a link, or no regular file.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/sockets/socket.h"

namespace pw::storage {

// A folder that a client has named.
struct Folder {
  std::filesystem::path root;   // the operator's: links in this path are followed
  std::filesystem::path below;  // from there; empty: the root itself

  std::filesystem::path path() const { return below.empty() ? root : root / below; }
  Folder operator/(const std::filesystem::path& more) const { return {root, below / more}; }
};

// The folders of this machine that clients may use. Clients of this process's own user may use paths in `paths_below`, clients of
// another user of the cluster paths in `users_below`. There, "{user}" stands for the user: with "/data/{user}", each user has
// a folder and reaches no other. Objects are kept as files too, unless there is a store for them (place.h). The object "gs://bucket/object" is the file
// objects_in/gs/bucket/object, or for another user objects_in/users/USER/gs/bucket/object. If a folder's text is empty, its
// locations are refused. Constant: any thread.
class Roots {
 public:
  Roots() = default;
  Roots(std::string paths_below, std::string objects_in, std::string users_below = "")
      : paths_below_(std::move(paths_below)), objects_in_(std::move(objects_in)), users_below_(std::move(users_below)) {}

  // Returns the folder of a client's location. `user`: another user's name in the cluster; empty: this process's own, whose login name stands for
  // "{user}". PERMISSION_DENIED, naming the flag that opens it; INVALID_ARGUMENT for relative paths.
  absl::StatusOr<Folder> Resolve(const std::string& location, const std::string& user = "") const;

 private:
  std::string paths_below_;
  std::string objects_in_;
  std::string users_below_;
};

// PERMISSION_DENIED if this name of a user, which may be empty, cannot be the name of a folder.
absl::Status CheckUser(const std::string& user);
// Returns the login name of this process's user.
std::string LoginName();
// Returns whether a path has a part "." or "..".
bool HasDots(const std::filesystem::path& path);

// Replaces a file whole or not at all, and makes missing folders. The bytes are on the disk on return. Writes to a new file, so
// that files to which a client has made hard links stay as they are.
absl::Status WriteWholeFile(const Folder& folder, const std::string& file, const Bytes& data);
// Returns the bytes of a file. NOT_FOUND: there is none. RESOURCE_EXHAUSTED: it has more than `limit` bytes.
absl::StatusOr<Bytes> ReadWholeFile(const Folder& folder, const std::string& file, int64_t limit);

// A file of known size, for reading parts of it.
class PartsOfFile {
 public:
  // NOT_FOUND: there is no such file. DATA_LOSS: it has another size.
  static absl::StatusOr<PartsOfFile> Open(const Folder& folder, const std::string& file, int64_t bytes);
  // Fills `out` with the bytes from `offset` on. REQUIRES: the file has them.
  absl::Status Read(int64_t offset, absl::Span<uint8_t> out) const;

 private:
  PartsOfFile(net::Fd fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  net::Fd fd_;
  std::filesystem::path path_;
};

// For code that changes folders. `action` is for errors: "cannot write /a/b: it does not exist".
// Opens a folder with O_PATH. `make`: makes it if it is missing.
absl::StatusOr<net::Fd> OpenFolder(const Folder& folder, bool make, absl::string_view action);
// Opens a regular file of an open folder, with these flags of open(2). A pipe is not waited for. `path` is for errors.
absl::StatusOr<net::Fd> OpenFile(const net::Fd& folder, const std::string& file, uint64_t flags, absl::string_view action,
                                 const std::filesystem::path& path);
// Returns the names in a folder, sorted.
absl::StatusOr<std::vector<std::string>> ListFolder(const Folder& folder);
// Removes a folder and all that is in it. OK if it does not exist.
absl::Status RemoveFolder(const Folder& folder);
// Waits until the names in the folder are on the disk.
absl::Status SyncFolder(const Folder& folder);
// Returns an error for a system call that has failed with `error`.
absl::Status FileError(int error, absl::string_view action, const std::filesystem::path& path);

}  // namespace pw::storage
