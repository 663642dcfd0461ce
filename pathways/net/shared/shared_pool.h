// SharedPool: keeps released shared memory and refills it once no process maps it. Its pages exist already; creating fresh pages
// costs more than the copy into them.
//
// A process that opens leased memory (SharedName::leased) holds a shared lock on its file while it is mapped. The system releases
// the lock however that process ends. If the pool can lock a file exclusively, no other process maps it. A process that knows the
// name but has not opened the memory yet holds no lock. So the pool must be given only memory that no process may still open
// (SM-4).
//
// Invariants:
//   SP-1  memory that Take returns is mapped by no other process and has exactly the requested size. A caller that overwrites all
//         of it leaves none of the old contents readable
//   SP-2  memory of one owner (a client or session) goes to no other, and nothing is kept for an owner that is gone
//   SP-3  the pool never exceeds its limits; it frees the oldest memory first, which unmaps it in no other process
//   SP-4  an idle process keeps nothing: unused memory is freed after kPatientSweeps sweeps, or after two sweeps when the machine
//         has less than the reserve available
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "pathways/net/sockets/socket.h"

namespace pw::net {

// A file and its mapping in this process. Owns both.
struct SharedPages {
  Fd fd;  // may be closed: the mapping stays
  void* base = nullptr;
  size_t size = 0;
  uint64_t device = 0, inode = 0;
  bool mapped = false;  // PrefaultPages has mapped its pages: writing causes no page faults

  SharedPages() = default;
  SharedPages(SharedPages&& other) noexcept { *this = std::move(other); }
  SharedPages& operator=(SharedPages&& other) noexcept {
    std::swap(fd, other.fd);
    std::swap(base, other.base);
    std::swap(size, other.size);
    std::swap(device, other.device);
    std::swap(inode, other.inode);
    std::swap(mapped, other.mapped);
    return *this;
  }
  ~SharedPages();
};

// The bytes that a pool may keep: `always` in any case, and up to `at_most` while the machine has at least `reserve` available.
// One memory can then be filled while others are still being read. Memory is freed when it is idle or its owner is gone.
struct KeptLimits {
  size_t always = 0;
  size_t at_most = 0;
  size_t reserve = 0;
};
// Returns a sixteenth of the machine's memory, and a quarter while another quarter is available.
KeptLimits KeptOfThisMachine();

class SharedPool {
 public:
  static constexpr size_t kMostFiles = 64;
  // About a minute at the usual sweep period: programs often read or write large arrays at intervals.
  static constexpr int kPatientSweeps = 7;

  explicit SharedPool(KeptLimits limits) : limits_(limits) {}

  std::optional<SharedPages> Take(size_t size, uint64_t owner);
  void Keep(SharedPages pages, uint64_t owner);
  // Enclose the use of an owner's memory, which Keep may get before EndUse. So the pool need not remember owners that are gone and
  // of which it will get no memory any more.
  void BeginUse(uint64_t owner);
  void EndUse(uint64_t owner);
  // Frees idle memory (SP-4). Called periodically.
  void Sweep();
  // Frees the memory of an owner that is gone. Owner numbers are never reused.
  void Forget(uint64_t owner);
  size_t bytes() const;
  size_t owners_gone() const;  // that are remembered

 private:
  struct Kept {
    SharedPages pages;
    uint64_t owner;
    int idle = 0;  // number of consecutive sweeps that found it unmapped elsewhere
  };
  // Removes the entries for which `goes` is true and returns them, for the caller to unmap without the lock. REQUIRES: lock held,
  // as for Limit.
  template <class Condition>
  std::vector<SharedPages> Remove(Condition goes);
  size_t Limit() const;
  bool MemoryIsShort() const;

  const KeptLimits limits_;
  mutable std::mutex mu_;
  std::deque<Kept> kept_;  // oldest first
  size_t bytes_ = 0;
  absl::flat_hash_map<uint64_t, size_t> in_use_;  // the number of an owner's memories in use; without zeros
  absl::flat_hash_set<uint64_t> gone_;            // owners that are gone, with memory in use
};

}  // namespace pw::net
