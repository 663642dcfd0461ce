// SharedPool: shared memory that was given away, to be filled anew once nobody looks at it any more. Its pages are there; fresh ones cost
// the system more than the copy into them.
//
// Whoever opens such memory (SharedName::leased) holds a shared lock on its file for as long as it is mapped. The system gives the lock up
// however that process ends; memory that can be locked alone is nobody's. That says nothing of those who have been told its name and have
// not opened it yet: the pool is given only what nobody may still open (SM-4).
//
// Invariants:
//   SP-1  what Take returns is mapped by no other process, and has exactly the size that was asked for: who writes all of it leaves nothing
//         to be read of what it held
//   SP-2  what was made for one owner goes to no other, and nothing is kept for an owner that has gone
//   SP-3  never more than the limits are kept; the oldest is given up first, which takes it from nobody
//   SP-4  what nobody has, or takes, is given up after kPatientSweeps, and from one sweep to the next but one where the machine has less than the
//         reserve available: an idle process keeps nothing
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "pathways/net/socket.h"

namespace pw::net {

// A file and where this process has it mapped. Owns both.
struct SharedPages {
  Fd fd;  // may be closed: the mapping stays
  void* base = nullptr;
  size_t size = 0;
  uint64_t device = 0, inode = 0;
  bool mapped = false;  // writing to it costs no page faults any more

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

// What a process may keep, of which one is filled while others are looked at: `always`, and up to `at_most` while the machine has `reserve`
// available. It goes with the clients it was made for, and when it is not used.
struct KeptLimits {
  size_t always = 0;
  size_t at_most = 0;
  size_t reserve = 0;
};
// A sixteenth of the machine's memory, and a quarter of it while another quarter is available.
KeptLimits KeptOfThisMachine();

class SharedPool {
 public:
  static constexpr size_t kMostFiles = 64;
  // A minute, as it is swept: who reads and writes large arrays often does so every now and then, in between two stretches of work.
  static constexpr int kPatientSweeps = 7;

  explicit SharedPool(KeptLimits limits) : limits_(limits) {}

  std::optional<SharedPages> Take(size_t size, uint64_t owner);
  void Keep(SharedPages pages, uint64_t owner);
  // Called every now and then.
  void Sweep();
  // The owner has gone. Numbers of owners do not come again.
  void Forget(uint64_t owner);
  size_t bytes() const;

 private:
  struct Kept {
    SharedPages pages;
    uint64_t owner;
    int idle = 0;  // so many sweeps have found that nobody has it
  };
  // Those of which it holds, for the caller to drop without the lock. REQUIRES: the lock, as Limit does.
  template <class Condition>
  std::vector<SharedPages> Remove(Condition goes);
  size_t Limit() const;
  bool MemoryIsShort() const;

  const KeptLimits limits_;
  mutable std::mutex mu_;
  std::deque<Kept> kept_;  // the oldest first
  size_t bytes_ = 0;
  absl::flat_hash_set<uint64_t> gone_;
};

}  // namespace pw::net
