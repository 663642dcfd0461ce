// Counts: how many messages have been sent to each destination shard, as stretches of equal numbers. Only what is not zero takes
// memory, and an edge that sends equally many to all shards takes one stretch whatever their number. A value, pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace pw::dataflow {

class Counts {
 public:
  // One sender's report of more than this is refused, so that no sum over hosts overflows.
  static constexpr uint64_t kMaxMessages = uint64_t{1} << 39;

  struct Stretch {
    uint32_t first = 0;
    uint32_t length = 0;
    uint64_t messages = 0;  // to each of these shards
    friend bool operator==(const Stretch&, const Stretch&) = default;
  };

  // Adds a stretch behind the others. REQUIRES: it starts at or after the end of the last. Stretches without messages are
  // dropped.
  void Append(Stretch run);
  void Add(const Counts& other);

  uint64_t Of(uint32_t shard) const;
  bool empty() const { return stretches_.empty(); }
  const std::vector<Stretch>& stretches() const { return stretches_; }

  // From outside: INVALID_ARGUMENT unless ascending, apart, below `shards`, and below kMaxMessages.
  static absl::Status Check(absl::Span<const Stretch> stretches, uint32_t shards);

  friend bool operator==(const Counts&, const Counts&) = default;

 private:
  std::vector<Stretch> stretches_;  // ascending, apart, messages != 0; neighbours that touch have different numbers
};

}  // namespace pw::dataflow
