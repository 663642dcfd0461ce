// BlockCache: large memory that comes and goes with arrays, kept for the next of about that size.
//
// Memory fresh from the system costs a page fault and zeroing where it is first touched, which is as much as a transfer takes to write it.
// What is idle here never exceeds the limit; the longest idle is given back first.
//
// Invariants:
//   BC-1  memory comes as it was left, with what another owner wrote: who takes it writes all of it before anyone reads
//   BC-2  a block is at most a quarter larger than what was asked for
// Any thread. Blocks may outlive the cache.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pathways/base/bytes.h"

namespace pw {

class BlockCache {
 public:
  static constexpr size_t kWorthwhileBytes = 4 << 20;  // smaller blocks come from the allocator
  static constexpr size_t kDefaultLimit = 128 << 20;

  explicit BlockCache(size_t limit_bytes = kDefaultLimit);
  ~BlockCache();

  // Nullopt: the system has no such memory.
  std::optional<AlignedBytes> Take(size_t size);
  size_t idle_bytes() const;

 private:
  class Idle;
  const std::shared_ptr<Idle> idle_;
};

}  // namespace pw
