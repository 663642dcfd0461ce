// BlockCache: keeps large freed blocks of memory for later arrays of about the same size.
//
// Fresh memory from the system costs a page fault and zeroing at its first use, which takes as long as a transfer takes to write it.
// Idle memory never exceeds the limit; the block that has been idle longest is freed first.
//
// Invariants:
//   BC-1  a block still holds the bytes of its previous owner: a new owner writes all of it before any read
//   BC-2  a block is at most a quarter larger than requested
// Any thread. Blocks may outlive the cache.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pathways/base/memory/bytes.h"

namespace pw {

class BlockCache {
 public:
  static constexpr size_t kWorthwhileBytes = 4 << 20;  // smaller blocks come from the allocator
  static constexpr size_t kDefaultLimit = 128 << 20;

  explicit BlockCache(size_t limit_bytes = kDefaultLimit);
  ~BlockCache();

  // Returns `size` bytes, or nullopt if the system has no memory.
  std::optional<AlignedBytes> Take(size_t size);
  size_t idle_bytes() const;

 private:
  class Idle;
  const std::shared_ptr<Idle> idle_;
};

}  // namespace pw
