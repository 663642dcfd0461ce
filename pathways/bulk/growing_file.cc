#include "pathways/bulk/growing_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/bulk/shared_directory.h"

namespace pw::bulk {

absl::StatusOr<GrowingFile> GrowingFile::In(int directory, const std::string& subdirectory, uint64_t handle, int64_t size) {
  PW_ASSIGN_OR_RETURN(net::Fd folder, OpenClientFolder(directory, subdirectory));
  return GrowingFile(std::move(folder), SharedFileName(handle), size);
}

// OK without a file: it is not there yet.
absl::Status GrowingFile::Open() {
  net::Fd file(::openat(folder_.get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return absl::OkStatus();
  struct statfs system;
  if (!file.valid() || ::fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC)
    return absl::FailedPreconditionError(absl::StrCat("the file ", name_, " is not one in memory"));
  file_ = std::move(file);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> GrowingFile::Look() {
  if (!file_.valid()) PW_RETURN_IF_ERROR(Open());
  if (!file_.valid()) return 0;
  constexpr int64_t kBlock = 512;  // of st_blocks, whatever the file system
  struct stat info;
  const bool plain = ::fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink != 0;
  if (!plain || info.st_size < seen_ || info.st_size > size_ || info.st_blocks * kBlock < info.st_size ||
      (seen_ == 0 && info.st_size == size_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file ", name_, " is not seen to be written from its beginning to its end"));
  }
  return seen_ = info.st_size;
}

absl::Status GrowingFile::Read(int64_t offset, uint8_t* out, size_t bytes) const {
  const absl::Status status = ReadAt(file_.get(), offset, out, bytes);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat("the file ", name_, " cannot be read: ", status.message()));
}

void GrowingFile::Remove() { ::unlinkat(folder_.get(), name_.c_str(), 0); }

}  // namespace pw::bulk
