#include "pathways/storage/staged_save.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/v1/storage.pb.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using net::Fd;

constexpr char kReserved[] = ".pathways-save";  // no array's name begins so
constexpr char kPrefix[] = ".pathways-save-";
constexpr char kLockFile[] = ".pathways-save.lock";
constexpr char kCommitFile[] = "commit";
constexpr int64_t kCommitLimit = 64 << 20;
constexpr int64_t kAbandonedSeconds = 24 * 3600;  // a save that takes longer is given up

// Returns the folder that holds `folder`, open. REQUIRES: folder is below the location.
absl::StatusOr<Fd> OpenParent(const Folder& folder, bool make) {
  return OpenFolder({folder.root, folder.below.parent_path()}, make, "write");
}

struct Entry {
  uint64_t inode = 0;
  int64_t changed_seconds = 0;
};

// Returns the entry of this name, of any kind; nullopt if there is none.
absl::StatusOr<std::optional<Entry>> Find(const Folder& path) {
  const absl::StatusOr<Fd> parent = OpenParent(path, false);
  if (absl::IsNotFound(parent.status())) return std::nullopt;
  PW_RETURN_IF_ERROR(parent.status());
  struct stat info;
  if (::fstatat(parent->get(), path.below.filename().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    return Entry{info.st_ino, info.st_mtime};
  if (errno == ENOENT) return std::nullopt;
  return FileError(errno, "read", path.path());
}

absl::Status Rename(const Folder& from, const Folder& to, unsigned flags) {
  PW_ASSIGN_OR_RETURN(const Fd from_parent, OpenParent(from, false));
  PW_ASSIGN_OR_RETURN(const Fd to_parent, OpenParent(to, true));
  if (::renameat2(from_parent.get(), from.below.filename().c_str(), to_parent.get(), to.below.filename().c_str(), flags) == 0)
    return absl::OkStatus();
  if (flags != 0 && (errno == EINVAL || errno == ENOSYS)) return absl::UnimplementedError("");
  return FileError(errno, "write", to.path());
}

// Checks that a folder, if there is one, holds an array and nothing else: a save replaces it whole.
absl::Status CheckReplaceable(const Folder& folder) {
  const absl::StatusOr<Fd> at = OpenFolder(folder, false, "replace");
  if (absl::IsNotFound(at.status()) || absl::IsPermissionDenied(at.status())) return absl::OkStatus();  // nothing, or a link
  PW_RETURN_IF_ERROR(at.status());
  PW_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    struct stat info;
    if (::fstatat(at->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode)) continue;
    return absl::FailedPreconditionError(absl::StrCat(folder.path().string(), " has the folder '", name,
                                                      "' in it, which would be lost: save the array under another name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArrayName(const std::string& name) {
  const fs::path path(name);
  const bool plain = std::all_of(path.begin(), path.end(), [](const fs::path& part) {
    return !part.empty() && part != "." && part != ".." && !absl::StartsWith(part.string(), kReserved);
  });
  if (plain && !path.empty() && path.is_relative() && name.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' cannot be the name of an array in a folder: it must be a relative path without dots"));
}

absl::Status CheckSaveId(const std::string& id) {
  const bool sound =
      !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) { return absl::ascii_isalnum(c); });
  return sound ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat("'", id, "' cannot be the name of a save"));
}

// Holds the lock of a location as long as it lives. Its file is removed before it is unlocked, so that none stays. TakeLock
// notices that.
struct StagedSave::Lock {
  Lock(Fd folder_fd, Fd file_fd) : folder(std::move(folder_fd)), file(std::move(file_fd)) {}
  Lock(Lock&&) = default;
  ~Lock() {
    if (folder.valid()) ::unlinkat(folder.get(), kLockFile, 0);
  }

  Fd folder;
  Fd file;
};

StagedSave::StagedSave(Folder location, std::string id, ForTests for_tests)
    : location_(std::move(location)),
      id_(std::move(id)),
      staging_(location_ / (kPrefix + id_)),
      for_tests_(std::move(for_tests)) {}

void StagedSave::Step() const {
  if (for_tests_.before_step != nullptr) for_tests_.before_step();
}

absl::Status StagedSave::WriteTile(const NamedArray& array, const buffers::Region& region, const Bytes& data) const {
  PW_RETURN_IF_ERROR(CheckId());
  PW_RETURN_IF_ERROR(CheckArrayName(array.name));
  Step();
  return WriteZarrChunk(ArrayFolder(array.name), array.array, region, data);
}

absl::Status StagedSave::AddHost(HostId host) const {
  PW_RETURN_IF_ERROR(CheckId());
  Step();
  const Folder hosts = staging_ / "hosts";
  PW_ASSIGN_OR_RETURN(const Fd folder, OpenFolder(hosts, true, "write"));
  // Empty, so it is whole at once. Several threads of the host may do this at the same time.
  PW_RETURN_IF_ERROR(OpenFile(folder, absl::StrCat(host.v), O_WRONLY | O_CREAT, "write", hosts.path()).status());
  return SyncFolder(hosts);
}

// Waits for other processes that commit, complete or drop saves of this location. NOT_FOUND if there is no such folder.
absl::StatusOr<StagedSave::Lock> StagedSave::TakeLock(const Folder& location, bool make) {
  const fs::path path = (location / kLockFile).path();
  PW_ASSIGN_OR_RETURN(Fd folder, OpenFolder(location, make, "write"));
  for (;;) {
    PW_ASSIGN_OR_RETURN(Fd file, OpenFile(folder, kLockFile, O_RDWR | O_CREAT, "lock", path));
    while (::flock(file.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return FileError(errno, "lock", path);
    }
    struct stat locked, named;
    const bool is_there =
        ::fstat(file.get(), &locked) == 0 && ::fstatat(folder.get(), kLockFile, &named, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && locked.st_ino == named.st_ino && locked.st_dev == named.st_dev)
      return Lock(std::move(folder), std::move(file));
    // The process that held the lock has removed this file. Others will lock a new one, and so must this process.
  }
}

// Returns the saves of which there is something on the disk.
absl::StatusOr<std::vector<StagedSave>> StagedSave::AllIn(const Folder& location, const ForTests& for_tests) {
  std::vector<StagedSave> saves;
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(location);
  if (absl::IsNotFound(names.status())) return saves;
  PW_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kPrefix)) continue;
    StagedSave save(location, name.substr(sizeof(kPrefix) - 1), for_tests);
    if (save.CheckId().ok()) saves.push_back(std::move(save));  // else it is not ours
  }
  return saves;
}

absl::StatusOr<bool> StagedSave::IsCommitted() const {
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> entry, Find(staging_ / kCommitFile));
  return entry.has_value();
}

absl::Status StagedSave::CheckWriters(const std::vector<Writer>& writers) const {
  for (const Writer& writer : writers) {
    PW_ASSIGN_OR_RETURN(const std::optional<Entry> entry, Find(staging_ / "hosts" / absl::StrCat(writer.host.v)));
    if (entry.has_value()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(writer.name, " has written its part of the arrays, but its files are not in ", location_.path().string(),
                     " here: the hosts do not share that file system. Mount one file system there on all hosts, or save to a "
                     "folder that they share"));
  }
  return absl::OkStatus();
}

absl::Status StagedSave::WriteCommit(const std::vector<NamedArray>& arrays) const {
  ::pathways::v1::SaveCommit commit;
  for (const NamedArray& array : arrays) {
    const Folder folder = ArrayFolder(array.name);
    PW_RETURN_IF_ERROR(CheckArrayName(array.name));
    PW_ASSIGN_OR_RETURN(std::string metadata, ZarrMetadata(array.array));
    PW_RETURN_IF_ERROR(CheckZarrChunks(folder, array.array));
    PW_RETURN_IF_ERROR(CheckReplaceable(folder));
    PW_RETURN_IF_ERROR(CheckReplaceable(location_ / array.name));
    Step();
    PW_RETURN_IF_ERROR(WriteWholeFile(folder, kZarrMetadataFile, Bytes::FromString(std::move(metadata))));
    PW_RETURN_IF_ERROR(SyncFolder(folder));
    PW_ASSIGN_OR_RETURN(const std::optional<Entry> entry, Find(folder));
    if (!entry.has_value()) return FileError(ENOENT, "write", folder.path());
    auto& proto = *commit.add_arrays();
    proto.set_name(array.name);
    proto.set_inode(entry->inode);
  }
  Step();
  PW_RETURN_IF_ERROR(WriteWholeFile(staging_, kCommitFile, Bytes::FromString(commit.SerializeAsString())));
  return SyncFolder(staging_);
}

absl::Status StagedSave::Commit(const std::vector<NamedArray>& arrays, const std::vector<Writer>& writers) const {
  PW_RETURN_IF_ERROR(CheckId());
  PW_ASSIGN_OR_RETURN(const Lock lock, TakeLock(location_, writers.empty()));
  // An earlier save that is committed comes first: its arrays must not replace those of this one.
  PW_RETURN_IF_ERROR(CompleteLocked(location_, for_tests_));
  PW_RETURN_IF_ERROR(OpenFolder(staging_, writers.empty(), "write").status());
  PW_RETURN_IF_ERROR(CheckWriters(writers));
  (void)RemoveAbandoned();  // a folder that cannot be removed does not fail this save
  PW_RETURN_IF_ERROR(WriteCommit(arrays));
  return MoveArrays();
}

// REQUIRES: the lock.
absl::Status StagedSave::MoveArrays() const {
  PW_ASSIGN_OR_RETURN(const Bytes data, ReadWholeFile(staging_, kCommitFile, kCommitLimit));
  ::pathways::v1::SaveCommit commit;
  if (!commit.ParseFromArray(data.data(), static_cast<int>(data.size())))
    return absl::DataLossError(absl::StrCat((staging_ / kCommitFile).path().string(), " is damaged: remove its folder by hand"));
  std::set<fs::path> changed;  // folders
  for (const auto& array : commit.arrays()) {
    PW_RETURN_IF_ERROR(CheckArrayName(array.name()));
    PW_RETURN_IF_ERROR(MoveArray(array.name(), array.inode()));
    changed.insert((location_ / array.name()).below.parent_path());
  }
  for (const fs::path& below : changed) {
    const absl::Status status = SyncFolder({location_.root, below});
    if (!absl::IsNotFound(status)) PW_RETURN_IF_ERROR(status);  // it may have been removed after the arrays had moved
  }
  return Remove();
}

absl::Status StagedSave::MoveArray(const std::string& name, uint64_t inode) const {
  const Folder from = ArrayFolder(name), to = location_ / name;
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> staged, Find(from));
  if (!staged.has_value() || staged->inode != inode) return absl::OkStatus();  // it is in its place
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> old, Find(to));
  Step();
  if (!old.has_value()) return Rename(from, to, 0);
  const absl::Status status = Exchange(from, to);
  if (!absl::IsUnimplemented(status)) return status;
  PW_RETURN_IF_ERROR(Rename(to, staging_ / "replaced" / name, 0));
  Step();
  return Rename(from, to, 0);
}

// UNIMPLEMENTED: the file system cannot do this.
absl::Status StagedSave::Exchange(const Folder& staged, const Folder& old) const {
  return for_tests_.can_exchange ? Rename(staged, old, RENAME_EXCHANGE) : absl::UnimplementedError("a test says so");
}

// Removes the staging folder, and `commit` when nothing else is in it. REQUIRES: the lock.
absl::Status StagedSave::Remove() const {
  for (const char* folder : {"arrays", "replaced", "hosts"}) {
    Step();
    PW_RETURN_IF_ERROR(RemoveFolder(staging_ / folder));
  }
  Step();
  PW_RETURN_IF_ERROR(RemoveFolder(staging_ / kCommitFile));
  Step();
  return RemoveFolder(staging_);
}

absl::StatusOr<StagedSave::Dropped> StagedSave::Drop() const {
  PW_RETURN_IF_ERROR(CheckId());
  const absl::StatusOr<Lock> lock = TakeLock(location_, false);
  if (absl::IsNotFound(lock.status())) return Dropped::kAbsent;
  PW_RETURN_IF_ERROR(lock.status());
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> staging, Find(staging_));
  if (!staging.has_value()) return Dropped::kAbsent;
  PW_ASSIGN_OR_RETURN(const bool committed, IsCommitted());
  if (committed) {
    PW_RETURN_IF_ERROR(MoveArrays());
    return Dropped::kCompleted;
  }
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> hosts, Find(staging_ / "hosts"));
  PW_RETURN_IF_ERROR(Remove());
  return hosts.has_value() ? Dropped::kRemoved : Dropped::kRemains;
}

absl::Status StagedSave::Complete(const Folder& location, const ForTests& for_tests) {
  PW_ASSIGN_OR_RETURN(const std::vector<StagedSave> saves, AllIn(location, for_tests));
  for (const StagedSave& save : saves) {  // takes the lock only if there is work: readers may be unable to take it
    PW_ASSIGN_OR_RETURN(const bool committed, save.IsCommitted());
    if (!committed) continue;
    PW_ASSIGN_OR_RETURN(const Lock lock, TakeLock(location, false));
    return CompleteLocked(location, for_tests);
  }
  return absl::OkStatus();
}

// REQUIRES: the lock.
absl::Status StagedSave::CompleteLocked(const Folder& location, const ForTests& for_tests) {
  PW_ASSIGN_OR_RETURN(const std::vector<StagedSave> saves, AllIn(location, for_tests));
  for (const StagedSave& save : saves) {
    PW_ASSIGN_OR_RETURN(const bool committed, save.IsCommitted());
    if (committed) PW_RETURN_IF_ERROR(save.MoveArrays());
  }
  return absl::OkStatus();
}

// Removes the saves that were begun a day before this one and were not committed: their processes have ended. The times are the file system's.
// REQUIRES: the lock.
absl::Status StagedSave::RemoveAbandoned() const {
  PW_ASSIGN_OR_RETURN(const std::optional<Entry> mine, Find(staging_));
  PW_ASSIGN_OR_RETURN(const std::vector<StagedSave> saves, AllIn(location_, for_tests_));
  for (const StagedSave& save : saves) {
    PW_ASSIGN_OR_RETURN(const std::optional<Entry> entry, Find(save.staging_));
    const bool old = mine.has_value() && entry.has_value() && entry->changed_seconds < mine->changed_seconds - kAbandonedSeconds;
    if (old) PW_RETURN_IF_ERROR(save.Remove());
  }
  return absl::OkStatus();
}

}  // namespace pw::storage
