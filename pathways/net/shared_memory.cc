#include "pathways/net/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/shared_pass_on.h"
#include "pathways/net/socket.h"

namespace pw::net {
namespace {

// The owner of shared bytes, which NameOf finds again by its type.
struct Mapping {
  void* base;
  size_t size;
  int fd;  // -1: somebody else's file; not to be passed on
  uint64_t device, inode;
  std::shared_ptr<std::atomic<int>> live;

  void operator()(const void*) const {
    ::munmap(base, std::max<size_t>(size, 1));
    if (fd >= 0) ::close(fd);
    if (live != nullptr) live->fetch_sub(1);
  }
};

std::string ErrorText(const char* what) { return absl::StrCat(what, ": ", ::strerror(errno)); }

absl::StatusOr<std::shared_ptr<const void>> Map(Fd fd, size_t size, int protection, bool keep_open,
                                                std::shared_ptr<std::atomic<int>> live, uint8_t** data, int sharing = MAP_SHARED) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return absl::ResourceExhaustedError(ErrorText("shared memory cannot be examined"));
  void* base = ::mmap(nullptr, std::max<size_t>(size, 1), protection, sharing, fd.get(), 0);
  if (base == MAP_FAILED) return absl::ResourceExhaustedError(ErrorText("shared memory cannot be mapped"));
  *data = static_cast<uint8_t*>(base);
  if (live != nullptr) live->fetch_add(1);
  Mapping mapping{base, size, keep_open ? fd.Release() : -1, static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
                  std::move(live)};
  return std::shared_ptr<const void>(base, std::move(mapping));
}

}  // namespace

absl::Status SharedMemory::Write(size_t offset, absl::Span<const iovec> pieces) {
  std::vector<iovec> left(pieces.begin(), pieces.end());
  size_t next = 0;
  while (next < left.size()) {
    const int count = static_cast<int>(std::min<size_t>(left.size() - next, IOV_MAX));
    ssize_t n = ::pwritev(fd_, left.data() + next, count, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ResourceExhaustedError(ErrorText("shared memory cannot be written"));
    offset += static_cast<size_t>(n);
    while (next < left.size() && static_cast<size_t>(n) >= left[next].iov_len) n -= static_cast<ssize_t>(left[next++].iov_len);
    if (next < left.size()) {
      left[next].iov_base = static_cast<char*>(left[next].iov_base) + n;
      left[next].iov_len -= static_cast<size_t>(n);
    }
  }
  return absl::OkStatus();
}

Bytes SharedMemory::Freeze() && { return Bytes(std::move(owner_), data_, size_); }

absl::StatusOr<SharedMemory> SharedMemoryFactory::Create(size_t size) {
  if (live() >= limit_) return absl::ResourceExhaustedError("as many shared memories as may be are in use");
  Fd fd(::memfd_create("pathways", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(ErrorText("shared memory cannot be made"));
  }
  SharedMemory memory;
  memory.size_ = size;
  memory.fd_ = fd.get();
  PW_ASSIGN_OR_RETURN(memory.owner_, Map(std::move(fd), size, PROT_READ | PROT_WRITE, true, live_, &memory.data_));
  return memory;
}

absl::StatusOr<Bytes> SharedMemoryFactory::Adopt(int fd, size_t size) {
  Fd owned(fd);
  if (live() >= limit_) return absl::ResourceExhaustedError("as many shared memories as may be are in use");
  uint8_t* data;
  PW_ASSIGN_OR_RETURN(auto owner, Map(std::move(owned), size, PROT_READ, true, live_, &data));
  return Bytes(std::move(owner), data, size);
}

std::optional<SharedName> NameOf(const Bytes& bytes) {
  const Mapping* mapping = std::get_deleter<Mapping>(bytes.owner());
  if (mapping == nullptr || mapping->fd < 0) return std::nullopt;
  return SharedName{::getpid(),      mapping->fd,
                    mapping->device, mapping->inode,
                    static_cast<uint64_t>(bytes.data() - static_cast<const uint8_t*>(mapping->base)), bytes.size()};
}

namespace {

// The descriptor stays open if its number is below `keep_below`.
absl::StatusOr<Bytes> OpenAndMap(const SharedName& name, bool exclusive, int keep_below) {
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  struct stat info;
  // Not opened before it is known to be a file: opening a device or a pipe does things.
  if (::stat(path.c_str(), &info) != 0) return absl::UnavailableError(ErrorText("the shared memory of another process is not there"));
  auto same = [&] {
    return S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_dev) == name.device && static_cast<uint64_t>(info.st_ino) == name.inode;
  };
  if (!same()) return absl::UnavailableError("the shared memory of another process is no longer there");
  Fd fd(exclusive ? ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1);
  const int sharing = fd.valid() ? MAP_SHARED : MAP_PRIVATE;
  if (!fd.valid()) fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return absl::UnavailableError(ErrorText("the shared memory of another process cannot be opened"));
  if (::fstat(fd.get(), &info) != 0 || !same()) return absl::UnavailableError("the shared memory of another process is no longer there");
  const uint64_t file = static_cast<uint64_t>(info.st_size);
  if (name.offset > file || name.size > file - name.offset)
    return absl::InvalidArgumentError(absl::StrCat("shared memory of ", file, " bytes does not hold ", name.size, " at ", name.offset));
  // A file with a name could be cut short by whoever may write to it.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (info.st_nlink != 0 && (seals < 0 || (seals & F_SEAL_SHRINK) == 0))
    return absl::InvalidArgumentError("shared memory that may shrink is not taken");
  uint8_t* data;
  const bool keep = fd.get() < keep_below;
  PW_ASSIGN_OR_RETURN(auto owner,
                      Map(std::move(fd), name.offset + name.size, PROT_READ | PROT_WRITE, keep, nullptr, &data, sharing));
  return Bytes(std::move(owner), data + name.offset, name.size);
}

}  // namespace

absl::StatusOr<Bytes> OpenShared(const SharedName& name, bool exclusive) { return OpenAndMap(name, exclusive, 0); }

absl::StatusOr<Bytes> OpenToPassOn(const SharedName& name, int descriptors) { return OpenAndMap(name, false, descriptors); }

Probe::Probe(bool wanted) {
  if (!wanted) return;
  constexpr size_t kSecretBytes = 32;
  absl::StatusOr<SharedMemory> memory = SharedMemoryFactory(1).Create(kSecretBytes);
  if (!memory.ok() || ::getrandom(memory->data(), kSecretBytes, 0) != static_cast<ssize_t>(kSecretBytes)) return;
  memory_ = std::move(*memory).Freeze();
}

bool VerifyProbe(const SharedName& name, const std::string& secret) {
  if (secret.empty() || name.size != secret.size()) return false;
  absl::StatusOr<Bytes> memory = OpenShared(name, false);
  return memory.ok() && memory->view() == secret;
}

}  // namespace pw::net
