// Reshard plans: for every destination shard, the pieces of source shards that fill it.
//
// Pure: no ids, no sockets. The pieces of a destination shard cover its region exactly once, and each comes from one source shard. Among
// source shards with the same elements the plan takes one on the same device, else one on the same host, else the hosts that have one
// take turns. An element therefore crosses to a host only once per destination shard that needs it (identical destination shards on one
// host share: see `same_as`). Planning costs O(shards + pieces), with a logarithm for the choice among replicas.
//
// Invariants (property-tested against a per-element model):
//   RP-1  each element of each destination shard is written by exactly one piece
//   RP-2  a piece comes from the position in the source array that it has in the destination array
//   RP-3  a piece is never empty
//   RP-4  a shard with same_as has no pieces. The shard that it names has a lower index, is on the same host and holds the same
//         elements. At least one of that shard's pieces comes from another host
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

struct ReshardPiece {
  int source_shard;
  Region from;  // in elements of the source shard
  Region to;    // in elements of the destination shard
};

struct ReshardShard {
  int shard;                         // of the destination
  std::vector<ReshardPiece> pieces;  // empty if the shard has no elements or same_as is set
  int same_as = -1;                  // an earlier destination shard on the same host with equal contents: copy it there instead
};

using ReshardPlan = std::vector<ReshardShard>;  // one entry per destination shard, in order

// Returns the plan. `host_of` maps a device to its host. INVALID_ARGUMENT if a sharding does not fit `dims`.
absl::StatusOr<ReshardPlan> PlanReshard(const Dims& dims, const Sharding& source, const Sharding& destination,
                                        const std::function<HostId(DeviceId)>& host_of);

}  // namespace pw::buffers
