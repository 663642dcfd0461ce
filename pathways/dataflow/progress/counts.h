// Counts: the number of messages sent to each destination shard, stored as stretches of equal numbers. Zeros take no memory. An
// edge that sends equally many messages to all shards takes one stretch, for any number of shards. A value, pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace pw::dataflow {

class Counts {
 public:
  // A report with a larger count is refused, so that no sum over hosts overflows.
  static constexpr uint64_t kMaxMessages = uint64_t{1} << 39;

  struct Stretch {
    uint32_t first = 0;
    uint32_t length = 0;
    uint64_t messages = 0;  // to each of these shards
    friend bool operator==(const Stretch&, const Stretch&) = default;
  };

  // Appends a stretch. REQUIRES: it starts at or after the end of the last one. Empty stretches are dropped.
  void Append(Stretch run);
  // Adds the counts of `other`, shard by shard.
  void Add(const Counts& other);

  uint64_t Of(uint32_t shard) const;
  bool empty() const { return stretches_.empty(); }
  const std::vector<Stretch>& stretches() const { return stretches_; }

  // Checks stretches that a peer sent. INVALID_ARGUMENT unless they are ascending, do not overlap, are not empty, lie below
  // `shards`, and count at most kMaxMessages.
  static absl::Status Check(absl::Span<const Stretch> stretches, uint32_t shards);

  friend bool operator==(const Counts&, const Counts&) = default;

 private:
  std::vector<Stretch> stretches_;  // ascending, disjoint, messages != 0; stretches that touch have different numbers
};

}  // namespace pw::dataflow
