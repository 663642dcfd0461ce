#include "pathways/frontend/shared_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/sockets/socket.h"

namespace pw::frontend {
namespace {

constexpr char kFilePrefix[] = "lt_";

bool IsPlainFolderName(const std::string& name) {
  return name.size() <= 128 &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; });
}

std::string SharedFileName(uint64_t handle) { return absl::StrCat(kFilePrefix, handle); }

absl::Status ReadAt(int fd, int64_t offset, uint8_t* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = pread(fd, out, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError(strerror(errno));
    if (n == 0) return absl::InvalidArgumentError("it ended early");
    offset += n;
    out += n;
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<net::Fd> OpenClientFolder(int directory, const std::string& subdirectory) {
  if (!IsPlainFolderName(subdirectory)) {
    return absl::InvalidArgumentError(
        "the client's folder in the shared directory has a name with other signs than letters, digits, - and _");
  }
  net::Fd folder(
      openat(directory, subdirectory.empty() ? "." : subdirectory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.valid()) return folder;
  return absl::NotFoundError(absl::StrCat("the client's folder in the shared directory cannot be opened: ", strerror(errno),
                                          "; client and server must see the same directory"));
}

// Returns true for a file in memory, without a name, that no other descriptor refers to: no process can write to it or truncate
// it from now on. Only then does the kernel grant a write lease. Only tmpfs, because the pages of other files are written back to
// a disk. False if the directory is half full: a kept file fills it for as long as its array lives, and the client library does
// not survive a full directory.
bool IsOursAlone(int fd) {
  struct stat info;
  struct statfs system;
  if (fstat(fd, &info) != 0 || info.st_nlink != 0 || fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC) return false;
  if (system.f_bavail < system.f_blocks / 2) return false;  // leaves room for later files
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) return false;
  return fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

}  // namespace

absl::StatusOr<int> OpenSharedDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) return fd;
  return absl::InvalidArgumentError(absl::StrCat("the shared directory ", path, " cannot be opened: ", strerror(errno)));
}

absl::StatusOr<Bytes> TakeSharedFile(int directory, const std::string& subdirectory, uint64_t handle, int64_t size,
                                     net::SharedMemoryFactory* factory) {
  PW_ASSIGN_OR_RETURN(const net::Fd folder, OpenClientFolder(directory, subdirectory));
  const std::string name = SharedFileName(handle);
  // O_NONBLOCK: opening a pipe of that name must not block.
  net::Fd file(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    return absl::NotFoundError(absl::StrCat("the file ", name, " in the shared directory cannot be opened: ", strerror(errno),
                                            "; client and server must see the same directory"));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file ", name, " in the shared directory is not a plain file of ", size, " bytes"));
  }
  unlinkat(folder.get(), name.c_str(), 0);
  if (size > 0 && factory->HasRoom() && IsOursAlone(file.get())) return factory->Adopt(file.Release(), static_cast<size_t>(size));
  PW_ASSIGN_OR_RETURN(AlignedBytes data, TryAllocateHostBuffer(size));
  if (absl::Status s = ReadAt(file.get(), 0, data.data(), static_cast<size_t>(size)); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat("the file ", name, " in the shared directory cannot be read: ", s.message()));
  }
  return std::move(data).Freeze();
}

void RemoveSharedFile(int directory, const std::string& subdirectory, uint64_t handle) {
  const absl::StatusOr<net::Fd> folder = OpenClientFolder(directory, subdirectory);
  if (folder.ok()) unlinkat(folder->get(), SharedFileName(handle).c_str(), 0);
}

namespace {

void RemoveFilesOf(int directory, const std::string& subdirectory) {
  const int folder = openat(directory, subdirectory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* entries = folder < 0 ? nullptr : fdopendir(folder);
  if (entries == nullptr) {
    if (folder >= 0) close(folder);
    return;
  }
  while (const dirent* entry = readdir(entries)) {
    if (absl::StartsWith(entry->d_name, kFilePrefix)) unlinkat(folder, entry->d_name, 0);
  }
  closedir(entries);
}

}  // namespace

// A client that was killed may have been writing: each of its threads can leave one more file after a pass.
void RemoveClientFolder(int directory, const std::string& subdirectory) {
  if (subdirectory.empty() || !IsPlainFolderName(subdirectory)) return;
  constexpr int kPasses = 16;  // a folder with other files stays
  for (int pass = 0; pass < kPasses; ++pass) {
    RemoveFilesOf(directory, subdirectory);
    if (unlinkat(directory, subdirectory.c_str(), AT_REMOVEDIR) == 0 || errno != ENOTEMPTY) return;
  }
}

}  // namespace pw::frontend
