// Remap plans: arrays made of the shards of other arrays, without moving data.
//
// A mapping pairs ranges of shard indices of one input array with ranges of one output array: the k-th index of `from` feeds the
// k-th of `to`. Pure. ResolveRemap turns a plan into single shards and checks it.
//
// Invariants of a resolved plan:
//   RM-1  every shard of every output array appears exactly once, in ascending order of (out_array, out_shard)
//   RM-2  every index is in range; an input shard may feed several output shards
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pw::buffers {

// start, start + step, ... below end.
struct ShardRange {
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
};

struct RemapMapping {
  int32_t in_array = 0;
  int32_t out_array = 0;
  std::vector<ShardRange> from;
  std::vector<ShardRange> to;
};

struct RemapPlan {
  std::vector<RemapMapping> mappings;
};

struct RemapItem {
  int32_t out_array;
  int32_t out_shard;
  int32_t in_array;
  int32_t in_shard;

  friend bool operator==(const RemapItem&, const RemapItem&) = default;
};

// `in_shards` and `out_shards` give the number of shards of each array. INVALID_ARGUMENT if the plan breaks an invariant; a
// hostile plan costs no more than a good one.
absl::StatusOr<std::vector<RemapItem>> ResolveRemap(const RemapPlan& plan, absl::Span<const int> in_shards,
                                                    absl::Span<const int> out_shards);

}  // namespace pw::buffers
