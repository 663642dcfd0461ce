// XLA's form of a sharding, and ours.
//
// xla.OpSharding places the tiles of a value on the partitions 0 .. n-1 of a computation; buffers::Sharding places them on a list
// of devices. Partition p is position p of the list. With several replicas (replica-major lists) every replica holds the whole
// value again. Values of kind manual, unknown and unreduced have full-size shards: they become replicated shardings, the only
// thing that can be said of their shape.
//
// Pure; input is from outside: anything that is not a sharding of that many devices and that rank is INVALID_ARGUMENT.
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

// The tiles alone, for `num_shards` devices.
absl::StatusOr<buffers::Tiles> OpShardingToTiles(const xla::OpSharding& proto, size_t num_shards, int rank);

// The way back: replicated, or the full table of devices.
xla::OpSharding ShardingToOpSharding(const buffers::Sharding& sharding);

}  // namespace pw::program
