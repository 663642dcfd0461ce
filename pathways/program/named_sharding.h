// The mesh form of a sharding (xla.NamedShardingProto), which newer clients write inside xla.OpSharding.
//
// A mesh is a grid of devices with named axes; every dimension of the value is cut along a list of axes (or parts of axes: the
// axis is split into pre_size, size and the rest, and the middle factor is meant). All other axes replicate.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/buffers/sharding.h"
#include "xla/xla_data.pb.h"

namespace pw::program {

// INVALID_ARGUMENT if it is not a sharding of `num_shards` devices and that rank.
absl::StatusOr<buffers::Tiles> NamedShardingToTiles(const xla::NamedShardingProto& proto, size_t num_shards, int rank);

// transpose(reshape(0 .. n-1, reshape_dims), perm), flattened. Empty perm: no transpose. INVALID_ARGUMENT if the dims do not make
// n, or perm is none.
absl::StatusOr<std::vector<int64_t>> TransposedIota(absl::Span<const int64_t> reshape_dims, absl::Span<const int64_t> perm,
                                                    size_t n);

}  // namespace pw::program
