// Remap plans: make arrays of the shards of other arrays, without moving data.
//
// A mapping pairs ranges of shard indices of one input array with ranges of one output array: the k-th index of `from` feeds the
// k-th index of `to`. Newer clients name shards by their devices instead; NumberShards converts these to mappings.
// ResolveRemap expands a plan to single shards and checks it. Pure.
//
// Invariants of a resolved plan:
//   RM-1  every shard of every output array appears exactly once, in ascending order of (out_array, out_shard)
//   RM-2  every index is in range; an input shard may feed several output shards
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"

namespace pw::buffers {

// The indices start, start + step, ... below end.
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

// On each of these devices the output array's shard is the input array's shard.
struct RemapDevices {
  int32_t in_array = 0;
  int32_t out_array = 0;
  std::vector<DeviceId> devices;
};

struct RemapPlan {
  std::vector<RemapMapping> mappings;
  std::vector<RemapDevices> by_device = {};
};

struct RemapItem {
  int32_t out_array;
  int32_t out_shard;
  int32_t in_array;
  int32_t in_shard;

  friend bool operator==(const RemapItem&, const RemapItem&) = default;
};

// The devices of an array in the order of its shards.
using ShardDevices = const std::vector<DeviceId>*;

// Returns the plan with `by_device` converted to mappings. INVALID_ARGUMENT if an array does not exist, or does not have exactly one shard
// on a device that the plan names. Costs as much as reading the plan and the arrays' devices.
absl::StatusOr<RemapPlan> NumberShards(const RemapPlan& plan, absl::Span<const ShardDevices> in,
                                       absl::Span<const ShardDevices> out);

// Expands `plan` to one item for each output shard. `in_shards` and `out_shards` are the numbers of shards of each array.
// INVALID_ARGUMENT if the plan breaks an invariant; a hostile plan costs no more than a valid one. REQUIRES: `by_device` is empty.
absl::StatusOr<std::vector<RemapItem>> ResolveRemap(const RemapPlan& plan, absl::Span<const int> in_shards,
                                                    absl::Span<const int> out_shards);

}  // namespace pw::buffers
