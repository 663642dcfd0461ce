// Converts between XLA's form of a sharding and ours.
//
// xla.OpSharding places the tiles of a value on partitions 0 .. n-1 of a computation; buffers::Sharding places them on a list of
// devices. Partition p is position p of the list. With several replicas (the list is replica-major), every replica holds the whole
// value. Shardings of type manual, unknown and unreduced have full-size shards. They become replicated shardings, which describe
// the shards' shape correctly, if not their contents.
//
// Pure. Input is untrusted: INVALID_ARGUMENT if it is not a sharding of a value of this rank on this number of devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/sharding.h"
#include "xla/xla_data.pb.h"

namespace pw::program {

// Empty bytes mean replicated.
absl::StatusOr<buffers::Sharding> OpShardingToSharding(std::string_view serialized, std::vector<DeviceId> devices,
                                                       std::string memory_kind, int rank);
absl::StatusOr<buffers::Sharding> OpShardingToSharding(const xla::OpSharding& proto, std::vector<DeviceId> devices,
                                                       std::string memory_kind, int rank);

// Converts the tiles alone, for `num_shards` devices.
absl::StatusOr<buffers::Tiles> OpShardingToTiles(const xla::OpSharding& proto, size_t num_shards, int rank);

// Converts back, to a replicated sharding or a full list of devices.
xla::OpSharding ShardingToOpSharding(const buffers::Sharding& sharding);

}  // namespace pw::program
