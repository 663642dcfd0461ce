// Memory that processes of one machine hand to each other instead of sending its contents.
//
// It lies in a file without a name (memfd): it is never left behind, however a process ends. Whoever has filled one says where it is
// (SharedName); a process of the same machine and user opens it through /proc and maps the same pages. The giver keeps its own mapping
// until it hears that the taker has opened it; from then on the pages live as long as either of them.
//
// Whether two processes can do this is found out by trying (Probe): the machine's name or an address prove nothing in a container.
//
// Invariants:
//   SM-1  the file of a SharedName is the one that was meant, or Open fails: a number that has been reused is recognised by the inode
//   SM-2  what Open maps cannot shrink under the reader: a file that could is refused
//   SM-3  a factory's live memories never exceed its limit: descriptors are few
//   SM-4  leased memory is filled anew (shared_pool.h) only when everybody who was told of it has said that he opened it, and nobody
//         has it any more
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
#include "pathways/base/bytes.h"
#include "pathways/base/timer_queue.h"
#include "pathways/net/shared_pool.h"
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
  bool leased = false;  // whoever opens it locks its file for as long as he looks
};

// One memory that is being filled, by Write (no page faults where pages are fresh, and for what comes in pieces) or in place.
class SharedMemory {
 public:
  SharedMemory() = default;

  size_t size() const { return size_; }
  uint8_t* data() { return data_; }
  // For who fills it from a socket.
  Place place() { return {owner_, data_, warm_ ? -1 : fd_}; }
  // Copies to [offset, ...). REQUIRES: it fits. INTERNAL if the machine has no memory.
  absl::Status Write(size_t offset, absl::Span<const iovec> pieces);
  Bytes Freeze() &&;

 private:
  friend class SharedMemoryFactory;
  std::shared_ptr<const void> owner_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  bool warm_ = false;  // its pages are there
};

class SharedMemoryFactory {
 public:
  static constexpr int kDefaultLimit = 256;
  // Below this, sending costs less than making, opening and mapping a file.
  static constexpr size_t kWorthwhileBytes = 1 << 20;
  static constexpr absl::Duration kSweepPeriod = absl::Seconds(10);

  explicit SharedMemoryFactory(int limit = kDefaultLimit) : limit_(limit) {}
  // One that keeps what was given away, to be filled anew; what it makes is leased.
  SharedMemoryFactory(int limit, KeptLimits kept) : limit_(limit), pool_(std::make_shared<SharedPool>(kept)) {}
  // From now on what is kept and idle is given up after some periods (SP-4). `executor` outlives the timers.
  void SweepEvery(absl::Duration period, Timers* timers, Executor* executor);
  void Sweep() {
    if (pool_ != nullptr) pool_->Sweep();
  }

  // `owner`: for whom; what is kept serves the same one again.
  // RESOURCE_EXHAUSTED: too many live ones, no descriptor, no memory. The caller then does without.
  absl::StatusOr<SharedMemory> Create(size_t size, uint64_t owner = 0);
  // A file that the caller has opened for reading and that nobody can change any more; takes the descriptor over in any case.
  absl::StatusOr<Bytes> Adopt(int fd, size_t size);
  // The owner has gone: what is kept for it is given up.
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

// Where others find these bytes; nullopt if they lie in ordinary memory.
std::optional<SharedName> NameOf(const Bytes& bytes);

// Of bytes that NameOf knows: another process is told of them; it has said that it opened them. Loans does both. Nothing for other bytes.
void NoteLent(const Bytes& bytes);
void NoteTaken(const Bytes& bytes);

// Maps it, writable. `exclusive`: nobody else looks at it any more, so that writing needs no page of its own; else what the caller
// writes is seen by the caller alone.
// UNAVAILABLE: there is no such file, or it is another one, with the reason; INVALID_ARGUMENT: it may shrink or is too small.
absl::StatusOr<Bytes> OpenShared(const SharedName& name, bool exclusive);

// A small shared memory with contents that nobody can guess. One process keeps it and tells another name and contents; the
// other can open what this one shares if Verify says so.
class Probe {
 public:
  // Without `wanted`: a probe that is not valid, for a process that shares no memory.
  explicit Probe(bool wanted = true);
  bool valid() const { return !memory_.empty(); }
  SharedName name() const { return *NameOf(memory_); }
  std::string secret() const { return std::string(memory_.view()); }

 private:
  Bytes memory_;
};
bool VerifyProbe(const SharedName& name, const std::string& secret);

// Between a SharedName and the SharedBytes of our protocols (worker.proto), which this folder does not know.
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
