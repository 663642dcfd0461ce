#include "pathways/net/shared/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
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
#include "pathways/net/prefault_pages.h"
#include "pathways/net/shared/shared_pass_on.h"
#include "pathways/net/sockets/socket.h"

namespace pw::net {
namespace {

// The resources behind shared bytes.
struct Held {
  SharedPages pages;
  bool named = false;  // NameOf returns its name
  bool leased = false;
  std::shared_ptr<std::atomic<int>> live;
  std::weak_ptr<SharedPool> pool;  // pool of the factory that made it
  uint64_t owner = 0;              // owner for the pool
  std::atomic<int> lent{0};        // processes that were told its name and have not reported that they opened it

  ~Held() {
    if (live != nullptr) live->fetch_sub(1);
    const std::shared_ptr<SharedPool> keeper = pool.lock();
    if (keeper == nullptr) return;
    if (lent == 0 && pages.base != nullptr) keeper->Keep(std::move(pages), owner);
    keeper->EndUse(owner);
  }
};

// The deleter of shared bytes. NameOf finds it by its type.
struct Mapping {
  std::shared_ptr<Held> held;
  void operator()(const void*) { held.reset(); }
};

Held* HeldBy(const Bytes& bytes) {
  const Mapping* mapping = std::get_deleter<Mapping>(bytes.owner());
  return mapping == nullptr ? nullptr : mapping->held.get();
}

std::string ErrorText(const char* what) { return absl::StrCat(what, ": ", ::strerror(errno)); }

absl::StatusOr<SharedPages> Map(Fd fd, size_t size, int protection, int sharing = MAP_SHARED) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return absl::ResourceExhaustedError(ErrorText("shared memory cannot be examined"));
  void* base = ::mmap(nullptr, std::max<size_t>(size, 1), protection, sharing, fd.get(), 0);
  if (base == MAP_FAILED) return absl::ResourceExhaustedError(ErrorText("shared memory cannot be mapped"));
  SharedPages pages;
  pages.fd = std::move(fd);
  pages.base = base;
  pages.size = size;
  pages.device = static_cast<uint64_t>(info.st_dev);
  pages.inode = static_cast<uint64_t>(info.st_ino);
  return pages;
}

// Returns resources that count as one more live memory until they are freed. RESOURCE_EXHAUSTED: there are as many as may be (SM-3).
absl::StatusOr<std::shared_ptr<Held>> CountOne(const std::shared_ptr<std::atomic<int>>& live, int limit) {
  auto held = std::make_shared<Held>();
  held->live = live;
  if (live->fetch_add(1) >= limit) return absl::ResourceExhaustedError("as many shared memories as may be are in use");
  return held;
}

std::shared_ptr<const void> Own(std::shared_ptr<Held> held) {
  void* const base = held->pages.base;
  return std::shared_ptr<const void>(base, Mapping{std::move(held)});
}

}  // namespace

absl::Status SharedMemory::Write(size_t offset, absl::Span<const iovec> pieces) {
  if (warm_) {
    for (const iovec& piece : pieces) {
      if (piece.iov_len > 0) std::memcpy(data_ + offset, piece.iov_base, piece.iov_len);
      offset += piece.iov_len;
    }
    return absl::OkStatus();
  }
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

absl::StatusOr<SharedMemory> SharedMemoryFactory::Create(size_t size, uint64_t owner) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<Held> held, CountOne(live_, limit_));
  held->pool = pool_;
  held->owner = owner;
  if (pool_ != nullptr) pool_->BeginUse(owner);
  std::optional<SharedPages> used = pool_ == nullptr ? std::nullopt : pool_->Take(size, owner);
  if (used.has_value()) {
    held->pages = *std::move(used);
    if (!std::exchange(held->pages.mapped, true)) PrefaultPages(held->pages.base, held->pages.size);
  } else {
    Fd fd(::memfd_create("pathways", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      return absl::ResourceExhaustedError(ErrorText("shared memory cannot be made"));
    }
    PW_ASSIGN_OR_RETURN(held->pages, Map(std::move(fd), size, PROT_READ | PROT_WRITE));
  }
  held->named = true;
  held->leased = pool_ != nullptr;
  SharedMemory memory;
  memory.size_ = size;
  memory.fd_ = held->pages.fd.get();
  memory.warm_ = used.has_value();
  memory.data_ = static_cast<uint8_t*>(held->pages.base);
  memory.owner_ = Own(std::move(held));
  return memory;
}

namespace {

void ScheduleSweep(std::weak_ptr<SharedPool> pool, absl::Duration period, Timers* timers, Executor* executor) {
  timers->After(period, executor, [pool = std::move(pool), period, timers, executor] {
    const std::shared_ptr<SharedPool> kept = pool.lock();
    if (kept == nullptr) return;
    kept->Sweep();
    ScheduleSweep(kept, period, timers, executor);
  });
}

}  // namespace

void SharedMemoryFactory::SweepEvery(absl::Duration period, Timers* timers, Executor* executor) {
  if (pool_ != nullptr) ScheduleSweep(pool_, period, timers, executor);
}

absl::StatusOr<Bytes> SharedMemoryFactory::Adopt(int fd, size_t size) {
  Fd owned(fd);
  PW_ASSIGN_OR_RETURN(std::shared_ptr<Held> held, CountOne(live_, limit_));
  PW_ASSIGN_OR_RETURN(held->pages, Map(std::move(owned), size, PROT_READ));
  held->named = true;
  const void* const data = held->pages.base;
  return Bytes(Own(std::move(held)), data, size);
}

std::optional<SharedName> NameOf(const Bytes& bytes) {
  const Held* held = HeldBy(bytes);
  if (held == nullptr || !held->named) return std::nullopt;
  const SharedPages& pages = held->pages;
  const auto offset = static_cast<uint64_t>(bytes.data() - static_cast<const uint8_t*>(pages.base));
  return SharedName{::getpid(), pages.fd.get(), pages.device, pages.inode, offset, bytes.size(), held->leased};
}

void NoteLent(const Bytes& bytes) {
  if (Held* held = HeldBy(bytes)) ++held->lent;
}

void NoteTaken(const Bytes& bytes) {
  if (Held* held = HeldBy(bytes)) --held->lent;
}

namespace {

// The descriptor stays open if its number is below `keep_below`.
absl::StatusOr<Bytes> OpenAndMap(const SharedName& name, bool exclusive, int keep_below, bool trusted = true) {
  const std::string path = absl::StrCat("/proc/", name.pid, "/fd/", name.fd);
  struct stat info;
  // Check that it is a regular file before opening it: opening a device or a pipe has side effects.
  if (::stat(path.c_str(), &info) != 0)
    return absl::UnavailableError(ErrorText("the shared memory of another process is not there"));
  auto same = [&] {
    return S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_dev) == name.device &&
           static_cast<uint64_t>(info.st_ino) == name.inode;
  };
  if (!same()) return absl::UnavailableError("the shared memory of another process is no longer there");
  Fd fd(exclusive ? ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1);
  const int sharing = fd.valid() ? MAP_SHARED : MAP_PRIVATE;
  if (!fd.valid()) fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return absl::UnavailableError(ErrorText("the shared memory of another process cannot be opened"));
  if (::fstat(fd.get(), &info) != 0 || !same())
    return absl::UnavailableError("the shared memory of another process is no longer there");
  const uint64_t file = static_cast<uint64_t>(info.st_size);
  if (name.offset > file || name.size > file - name.offset)
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", file, " bytes does not hold ", name.size, " at ", name.offset));
  // Any process that may write to a file with a path could truncate it; an untrusted sender could truncate its own file.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if ((info.st_nlink != 0 || !trusted) && (seals < 0 || (seals & F_SEAL_SHRINK) == 0))
    return absl::InvalidArgumentError("shared memory that may shrink is not taken");
  if (name.leased && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0)
    return absl::UnavailableError(ErrorText("the shared memory of another process is no longer there"));
  const int number = fd.get();
  auto held = std::make_shared<Held>();
  PW_ASSIGN_OR_RETURN(held->pages, Map(std::move(fd), name.offset + name.size, PROT_READ | PROT_WRITE, sharing));
  const uint8_t* const data = static_cast<const uint8_t*>(held->pages.base) + name.offset;
  held->named = number < keep_below;
  held->leased = name.leased;
  // Leased memory needs its descriptor for the lock; without the lock its pages may be refilled. If too many descriptors are open, copy it.
  if (name.leased && number >= kDescriptorsForPassingOn) return Bytes::Copy({reinterpret_cast<const char*>(data), name.size});
  if (!held->named && !name.leased) held->pages.fd = Fd();
  return Bytes(Own(std::move(held)), data, name.size);
}

}  // namespace

absl::StatusOr<Bytes> OpenShared(const SharedName& name, bool exclusive) { return OpenAndMap(name, exclusive, 0); }

absl::StatusOr<Bytes> OpenToPassOn(const SharedName& name, int descriptors) { return OpenAndMap(name, false, descriptors); }

absl::StatusOr<Bytes> OpenPassed(Fd file, const PassedPart& part, bool trusted) {
  struct stat info;
  if (!file.valid() || ::fstat(file.get(), &info) != 0)
    return absl::InvalidArgumentError("a packet announces a file, and has none");
  // Opens the file anew: all descriptors of one open file share its lock, and this process needs a lock of its own.
  const SharedName name = {
      ::getpid(), file.get(), static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino), part.offset,
      part.size,  part.leased};
  return OpenAndMap(name, false, kDescriptorsForPassingOn, trusted);
}

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
