#include "pathways/storage/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using net::Fd;

// Returns the way from `folder` to `path`, if the path is below it.
std::optional<fs::path> Below(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative == "." ? fs::path() : relative;
}

// Returns the operator's folder for this user. In `below`, from "{user}" on, users may make links, so none is followed there.
Folder FolderOf(const std::string& text, const std::string& user) {
  constexpr absl::string_view kUser = "{user}";
  if (!absl::StrContains(text, kUser)) return Folder{text, ""};
  const std::string name = user.empty() ? LoginName() : user;
  Folder folder;
  for (const fs::path& part : fs::path(text)) {
    fs::path& side = folder.below.empty() && !absl::StrContains(part.native(), kUser) ? folder.root : folder.below;
    side /= absl::StrReplaceAll(part.native(), {{kUser, name}});
  }
  return folder;
}

// Opens one part of a path. ELOOP: it is a link.
Fd OpenPart(const Fd& folder, const fs::path& part, uint64_t flags, uint64_t mode = 0) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  Fd fd(static_cast<int>(::syscall(SYS_openat2, folder.get(), part.c_str(), &how, sizeof(how))));
  if (!fd.valid() && errno == EXDEV) errno = ELOOP;  // the link was put there during the call
  return fd;
}

// Returns 0, or the error.
int WriteAll(const Fd& fd, const Bytes& data) {
  for (size_t written = 0; written < data.size();) {
    const ssize_t n = ::write(fd.get(), data.data() + written, data.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    written += static_cast<size_t>(n);
  }
  return 0;
}

// Returns 0, or the error; EIO if the file ends before.
int ReadAll(const Fd& fd, int64_t offset, absl::Span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd.get(), out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    out.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

// Adds the names in a folder that was opened with O_PATH. Returns 0, or the error.
int ListNames(const Fd& folder, std::vector<std::string>* names) {
  Fd fd = OpenPart(folder, ".", O_RDONLY | O_DIRECTORY);
  DIR* const stream = fd.valid() ? ::fdopendir(fd.get()) : nullptr;
  if (stream == nullptr) return errno;
  (void)fd.Release();  // the stream's
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names->push_back(name);
  }
  ::closedir(stream);
  std::sort(names->begin(), names->end());
  return 0;
}

// Removes a file, or a folder with all that is in it. Returns 0, also if it does not exist, or the error.
int RemoveEntry(const Fd& folder, const std::string& name) {
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return errno;
  for (int attempts = 0; attempts < 3; ++attempts) {  // other processes may add files meanwhile
    const Fd inside = OpenPart(folder, name, O_PATH | O_DIRECTORY);
    if (!inside.valid()) return errno == ENOENT ? 0 : errno;
    std::vector<std::string> names;
    if (const int error = ListNames(inside, &names); error != 0) return error;
    for (const std::string& each : names) {
      if (const int error = RemoveEntry(inside, each); error != 0) return error;
    }
    if (::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
    if (errno != ENOTEMPTY && errno != EEXIST) return errno;
  }
  return ENOTEMPTY;
}

}  // namespace

bool HasDots(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".." || part == "."; });
}

// "alice"; in a container without such an entry "uid-1000".
std::string LoginName() {
  passwd entry;
  passwd* found = nullptr;
  char text[4096];
  const uid_t uid = ::geteuid();
  if (::getpwuid_r(uid, &entry, text, sizeof(text), &found) == 0 && found != nullptr) return found->pw_name;
  return absl::StrCat("uid-", uid);
}

absl::Status CheckUser(const std::string& user) {
  if (user.empty() || (user[0] != '.' && !absl::StrContains(user, '/'))) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("'", user, "' cannot be the name of a user's folder: ask for a token of another name"));
}

absl::Status FileError(int error, absl::string_view action, const fs::path& path) {
  const std::string text = absl::StrCat("cannot ", action, " ", path.string(), ": ");
  if (error == ELOOP)
    return absl::PermissionDeniedError(absl::StrCat(text, "its path has a symbolic link, which clients may not use"));
  if (error == ENOSYS)
    return absl::FailedPreconditionError(absl::StrCat(text, "files of clients need Linux 5.6 or newer (openat2)"));
  if (error == ENOENT) return absl::NotFoundError(absl::StrCat(text, "it does not exist"));
  return absl::UnavailableError(absl::StrCat(text, std::error_code(error, std::generic_category()).message()));
}

absl::StatusOr<Fd> OpenFolder(const Folder& folder, bool make, absl::string_view action) {
  std::error_code ignored;
  if (make) fs::create_directories(folder.root, ignored);
  Fd at(::open(folder.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return FileError(errno, action, folder.root);
  for (const fs::path& part : folder.below) {
    if (part.empty()) continue;  // after a slash at the end
    if (make) ::mkdirat(at.get(), part.c_str(), 0777);
    Fd next = OpenPart(at, part, O_PATH | O_DIRECTORY);
    if (!next.valid()) return FileError(errno, action, folder.path());
    at = std::move(next);
  }
  return at;
}

absl::StatusOr<Fd> OpenFile(const Fd& folder, const std::string& file, uint64_t flags, absl::string_view action,
                            const fs::path& path) {
  Fd fd = OpenPart(folder, file, flags | O_NONBLOCK, (flags & O_CREAT) != 0 ? 0666 : 0);
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return FileError(errno, action, path);
  if (S_ISREG(info.st_mode)) return fd;
  return absl::PermissionDeniedError(absl::StrCat("cannot ", action, " ", path.string(), ": it is no regular file"));
}

absl::StatusOr<Folder> Roots::Resolve(const std::string& location, const std::string& user) const {
  const size_t scheme = location.find("://");
  const bool object = scheme != std::string::npos;
  const fs::path path = object ? fs::path(location.substr(0, scheme)) / location.substr(scheme + 3) : fs::path(location);
  if (HasDots(path) || location.find('\0') != std::string::npos || path.is_absolute() == object) {
    return absl::InvalidArgumentError(
        absl::StrCat("the location '", location, "' is neither an absolute path nor SCHEME://BUCKET/OBJECT"));
  }
  PW_RETURN_IF_ERROR(CheckUser(user));
  if (object) {
    const Folder objects{objects_in_, user.empty() ? fs::path() : fs::path("users") / user};
    if (!objects_in_.empty()) return Folder{objects.root, objects.below / path.lexically_normal()};
    return absl::PermissionDeniedError(
        absl::StrCat("there is nowhere to keep ", location, ": start the process with --object-directory"));
  }
  const std::string& allowed = user.empty() ? paths_below_ : users_below_;
  const Folder own = FolderOf(allowed, user);
  std::error_code ignored;
  for (const fs::path& root : {own.root, fs::weakly_canonical(own.root, ignored)}) {
    if (allowed.empty()) break;
    const Folder start{root, own.below};
    const auto below = Below(path.lexically_normal(), start.path().lexically_normal());
    if (below.has_value()) return below->empty() ? start : Folder{root, own.below / *below};
  }
  if (user.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("clients may not use ", location, ": start the process with a --persistence-directory that contains it"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("user '", user, "' may not use ", location,
                   ", only what the workers' --users-directory names: ", allowed.empty() ? "nothing" : own.path().string()));
}

absl::Status WriteWholeFile(const Folder& folder, const std::string& file, const Bytes& data) {
  const fs::path path = folder.path() / file;
  const std::string unfinished = file + ".unfinished";
  PW_ASSIGN_OR_RETURN(const Fd at, OpenFolder(folder, true, "write"));
  ::unlinkat(at.get(), unfinished.c_str(), 0);  // left by a process that has ended
  PW_ASSIGN_OR_RETURN(const Fd fd, OpenFile(at, unfinished, O_WRONLY | O_CREAT | O_EXCL, "write", path));
  int error = WriteAll(fd, data);
  if (error == 0 && ::fdatasync(fd.get()) != 0) error = errno;
  if (error == 0 && ::renameat(at.get(), unfinished.c_str(), at.get(), file.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  ::unlinkat(at.get(), unfinished.c_str(), 0);
  return FileError(error, "write", path);
}

absl::StatusOr<Bytes> ReadWholeFile(const Folder& folder, const std::string& file, int64_t limit) {
  const fs::path path = folder.path() / file;
  PW_ASSIGN_OR_RETURN(const Fd at, OpenFolder(folder, false, "read"));
  PW_ASSIGN_OR_RETURN(const Fd fd, OpenFile(at, file, O_RDONLY, "read", path));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FileError(errno, "read", path);
  if (info.st_size > limit)
    return absl::ResourceExhaustedError(
        absl::StrCat(path.string(), " has ", info.st_size, " bytes; at most ", limit, " were expected"));
  PW_ASSIGN_OR_RETURN(AlignedBytes data, TryAllocateHostBuffer(info.st_size));
  if (const int error = ReadAll(fd, 0, absl::MakeSpan(data.data(), data.size())); error != 0)
    return FileError(error, "read", path);
  return std::move(data).Freeze();
}

absl::StatusOr<PartsOfFile> PartsOfFile::Open(const Folder& folder, const std::string& file, int64_t bytes) {
  fs::path path = folder.path() / file;
  PW_ASSIGN_OR_RETURN(const Fd at, OpenFolder(folder, false, "read"));
  PW_ASSIGN_OR_RETURN(Fd fd, OpenFile(at, file, O_RDONLY, "read", path));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FileError(errno, "read", path);
  if (info.st_size == bytes) return PartsOfFile(std::move(fd), std::move(path));
  return absl::DataLossError(absl::StrCat(path.string(), " has ", info.st_size, " bytes, not ", bytes));
}

absl::Status PartsOfFile::Read(int64_t offset, absl::Span<uint8_t> out) const {
  const int error = ReadAll(fd_, offset, out);
  return error == 0 ? absl::OkStatus() : FileError(error, "read", path_);
}

absl::StatusOr<std::vector<std::string>> ListFolder(const Folder& folder) {
  PW_ASSIGN_OR_RETURN(const Fd at, OpenFolder(folder, false, "list"));
  std::vector<std::string> names;
  if (const int error = ListNames(at, &names); error != 0) return FileError(error, "list", folder.path());
  return names;
}

absl::Status RemoveFolder(const Folder& folder) {
  if (folder.below.empty()) return absl::InternalError("the folder that the operator named is not removed");
  const absl::StatusOr<Fd> parent = OpenFolder({folder.root, folder.below.parent_path()}, false, "remove");
  if (absl::IsNotFound(parent.status())) return absl::OkStatus();
  PW_RETURN_IF_ERROR(parent.status());
  const int error = RemoveEntry(*parent, folder.below.filename());
  return error == 0 ? absl::OkStatus() : FileError(error, "remove", folder.path());
}

absl::Status SyncFolder(const Folder& folder) {
  PW_ASSIGN_OR_RETURN(const Fd path_only, OpenFolder(folder, false, "write"));
  const Fd fd = OpenPart(path_only, ".", O_RDONLY | O_DIRECTORY);
  // Some file systems over networks cannot do this for folders. They keep names at the server.
  if (!fd.valid() || (::fsync(fd.get()) != 0 && errno != EINVAL)) return FileError(errno, "write", folder.path());
  return absl::OkStatus();
}

}  // namespace pw::storage
