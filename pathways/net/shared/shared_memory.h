// Shared memory: processes of one machine pass its name to each other instead of sending its contents.
//
// The memory is a file without a path (memfd), so no process can leave it behind. The giver sends the file's SharedName. The taker, a
// process of the same machine and user, opens it through /proc and maps the same pages. The giver keeps its own mapping until the taker
// reports that it has opened the file. After that the pages live as long as either process maps them.
//
// Two processes learn by trying (Probe) whether they can share memory: in a container, a host name or address proves nothing.
//
// Invariants:
//   SM-1  Open maps the file that the SharedName was made for, or fails: the inode reveals a reused descriptor number
//   SM-2  memory that Open maps cannot shrink under the reader: a file that could shrink is refused
//   SM-3  a factory never has more live memories than its limit: descriptors are scarce
//   SM-4  leased memory is refilled (shared_pool.h) only when no process maps it or may still open it. Every process that was
//         told its name has then reported that it opened the memory
//
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/shared/shared_pool.h"
#include "pathways/net/transport.h"

struct iovec;

namespace pw::net {

struct SharedName {
  int64_t pid = 0;
  int32_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool leased = false;  // a process that opens the file keeps a shared lock on it while it is mapped
};

// A shared memory that is being filled, in place or by Write. Write takes contents in pieces, and causes no page faults on fresh
// pages.
class SharedMemory {
 public:
  SharedMemory() = default;

  size_t size() const { return size_; }
  uint8_t* data() { return data_; }
  // Copies `pieces` to [offset, ...). REQUIRES: they fit. RESOURCE_EXHAUSTED if the machine has no memory.
  absl::Status Write(size_t offset, absl::Span<const iovec> pieces);
  Bytes Freeze() &&;

 private:
  friend class SharedMemoryFactory;
  std::shared_ptr<const void> owner_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  bool warm_ = false;  // its pages exist already
};

class SharedMemoryFactory {
 public:
  static constexpr int kDefaultLimit = 256;
  // Below this size, sending costs less than creating, opening and mapping a file.
  static constexpr size_t kWorthwhileBytes = 1 << 20;
  static constexpr absl::Duration kSweepPeriod = absl::Seconds(10);

  explicit SharedMemoryFactory(int limit = kDefaultLimit) : limit_(limit) {}
  // Makes a factory with a pool, which keeps released memory and refills it. All memory of such a factory is leased.
  SharedMemoryFactory(int limit, KeptLimits kept) : limit_(limit), pool_(std::make_shared<SharedPool>(kept)) {}
  // Starts to sweep the pool every `period`, which frees idle memory after some periods (SP-4). `executor` outlives the timers.
  void SweepEvery(absl::Duration period, Timers* timers, Executor* executor);
  void Sweep() {
    if (pool_ != nullptr) pool_->Sweep();
  }

  // Creates a memory of `size` bytes. `owner`: memory of the pool is reused only for the same owner.
  // RESOURCE_EXHAUSTED: too many live memories, no descriptor, or no memory. The caller then proceeds without shared memory.
  absl::StatusOr<SharedMemory> Create(size_t size, uint64_t owner = 0);
  // Maps a file that the caller has opened for reading and that no process can change any more. Takes ownership of `fd` in any case.
  absl::StatusOr<Bytes> Adopt(int fd, size_t size);
  // Frees the memory kept for an owner that is gone.
  void Forget(uint64_t owner) {
    if (pool_ != nullptr) pool_->Forget(owner);
  }
  bool HasRoom() const { return live() < limit_; }
  int live() const { return live_->load(); }

 private:
  const int limit_;
  const std::shared_ptr<std::atomic<int>> live_ = std::make_shared<std::atomic<int>>(0);
  const std::shared_ptr<SharedPool> pool_;  // null: none
};

// Returns the name by which other processes open these bytes; nullopt if they are in ordinary memory.
std::optional<SharedName> NameOf(const Bytes& bytes);

// NoteLent records that the name of `bytes` was sent to another process; NoteTaken, that the other process has reported to have
// opened them. UnopenedSharedMemory calls both. They do nothing for ordinary memory.
void NoteLent(const Bytes& bytes);
void NoteTaken(const Bytes& bytes);

// Maps the named memory, writable. `exclusive`: no other process uses it any more, so writes go to the shared pages. Otherwise
// writes go to private pages that only the caller sees.
// UNAVAILABLE, with the reason: the file does not exist or is another one. INVALID_ARGUMENT: the file may shrink or is too small.
absl::StatusOr<Bytes> OpenShared(const SharedName& name, bool exclusive);

// Maps part of a file that another process has passed (file_socket.h). NameOf returns a name for the result, unless many
// descriptors are open here. `trusted`: also accepts a file that may shrink, because only a process of this user could shrink it.
// Returns the errors of OpenShared.
struct PassedPart {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool leased = false;
};
absl::StatusOr<Bytes> OpenPassed(Fd file, const PassedPart& part, bool trusted);

// A small shared memory with secret random contents. One process keeps it and sends its name and contents to another process. If
// VerifyProbe succeeds there, that process can open the shared memory of the first one.
class Probe {
 public:
  // `wanted` false makes an invalid probe, for a process that shares no memory.
  explicit Probe(bool wanted = true);
  bool valid() const { return !memory_.empty(); }
  SharedName name() const { return *NameOf(memory_); }
  std::string secret() const { return std::string(memory_.view()); }

 private:
  Bytes memory_;
};
bool VerifyProbe(const SharedName& name, const std::string& secret);

// Convert between SharedName and the SharedBytes of our protocols (worker.proto), which this folder does not depend on.
template <class SharedBytes>
void WriteName(const SharedName& name, SharedBytes* out) {
  out->set_pid(name.pid);
  out->set_fd(name.fd);
  out->set_device(name.device);
  out->set_inode(name.inode);
  out->set_offset(name.offset);
  out->set_size(name.size);
  out->set_leased(name.leased);
}
template <class SharedBytes>
SharedName ReadName(const SharedBytes& in) {
  return {in.pid(), in.fd(), in.device(), in.inode(), in.offset(), in.size(), in.leased()};
}

}  // namespace pw::net
