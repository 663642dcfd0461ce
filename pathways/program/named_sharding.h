// Converts the mesh form of a sharding (xla.NamedShardingProto), which newer clients write inside xla.OpSharding.
//
// A mesh is a grid of devices with named axes. Every dimension of the value is cut along a list of axes or sub-axes; all other axes
// replicate. A sub-axis splits an axis into three factors, pre_size, size and the rest, and stands for the middle one.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/buffers/sharding.h"
#include "xla/xla_data.pb.h"

namespace pw::program {

// INVALID_ARGUMENT if it is not a sharding of a value of this rank on `num_shards` devices.
absl::StatusOr<buffers::Tiles> NamedShardingToTiles(const xla::NamedShardingProto& proto, size_t num_shards, int rank);

// Returns transpose(reshape(0 .. n-1, reshape_dims), perm), flattened. Empty perm: no transpose. INVALID_ARGUMENT if the product of
// the dims is not n, or perm is not a permutation.
absl::StatusOr<std::vector<int64_t>> TransposedIota(absl::Span<const int64_t> reshape_dims, absl::Span<const int64_t> perm,
                                                    size_t n);

}  // namespace pw::program
