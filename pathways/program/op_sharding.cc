#include "pathways/program/op_sharding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/named_sharding.h"

namespace pw::program {
namespace {

using xla::OpSharding;

// Returns the number of trailing dimensions of the grid that replicate. Manual dimensions count too: shards are whole along them.
absl::StatusOr<int> SubgroupDims(const OpSharding& proto, int rank) {
  const int subgroups = proto.replicate_on_last_tile_dim() ? 1 : proto.last_tile_dims_size();
  if (proto.tile_assignment_dimensions_size() == rank + subgroups) return subgroups;
  return absl::InvalidArgumentError(absl::StrCat("a sharding over a grid [",
                                                 absl::StrJoin(proto.tile_assignment_dimensions(), ","), "] with ", subgroups,
                                                 " replicating dimensions does not fit a value of rank ", rank));
}

absl::StatusOr<std::vector<int64_t>> PartitionsInGridOrder(const OpSharding& proto, size_t n) {
  if (proto.iota_reshape_dims_size() > 0) {
    std::vector<int64_t> perm(proto.iota_transpose_perm().begin(), proto.iota_transpose_perm().end());
    return TransposedIota(proto.iota_reshape_dims(), perm, n);
  }
  return std::vector<int64_t>(proto.tile_assignment_devices().begin(), proto.tile_assignment_devices().end());
}

absl::StatusOr<int64_t> GridSize(const OpSharding& proto, size_t num_shards) {
  int64_t size = 1;
  for (int64_t d : proto.tile_assignment_dimensions()) {
    if (d < 1 || __builtin_mul_overflow(size, d, &size) || size > static_cast<int64_t>(num_shards)) size = 0;
    if (size == 0) break;
  }
  // A replica-major list of several replicas holds the grid several times.
  if (size > 0 && num_shards % size == 0) return size;
  return absl::InvalidArgumentError(absl::StrCat("a sharding over a grid [",
                                                 absl::StrJoin(proto.tile_assignment_dimensions(), ","), "] does not fit ",
                                                 num_shards, " devices"));
}

absl::StatusOr<buffers::Tiles> TiledToTiles(const OpSharding& proto, size_t num_shards, int rank) {
  PW_ASSIGN_OR_RETURN(const int subgroups, SubgroupDims(proto, rank));
  PW_ASSIGN_OR_RETURN(const int64_t grid, GridSize(proto, num_shards));
  PW_ASSIGN_OR_RETURN(const std::vector<int64_t> partitions, PartitionsInGridOrder(proto, grid));
  if (static_cast<int64_t>(partitions.size()) != grid) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding lists ", partitions.size(), " devices for a grid of ", grid));
  }
  int64_t copies = 1;
  for (int d = rank; d < rank + subgroups; ++d) copies *= proto.tile_assignment_dimensions(d);
  const auto& grid_dims = proto.tile_assignment_dimensions();
  buffers::Tiles tiles{buffers::Dims(grid_dims.begin(), grid_dims.begin() + rank), std::vector<int32_t>(num_shards, -1)};
  for (int64_t g = 0; g < grid; ++g) {
    const int64_t p = partitions[g];
    if (p < 0 || p >= grid || tiles.tile_of_shard[p] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("a sharding lists device ", p, " twice, or it does not exist among ", grid));
    }
    for (size_t shard = p; shard < num_shards; shard += grid) tiles.tile_of_shard[shard] = static_cast<int32_t>(g / copies);
  }
  return tiles;
}

}  // namespace

absl::StatusOr<buffers::Tiles> OpShardingToTiles(const OpSharding& proto, size_t num_shards, int rank) {
  if (proto.has_named_sharding()) return NamedShardingToTiles(proto.named_sharding(), num_shards, rank);
  switch (proto.type()) {
    case OpSharding::REPLICATED:
    case OpSharding::MANUAL:
    case OpSharding::UNKNOWN:
    case OpSharding::UNREDUCED:
      return buffers::Tiles{};
    case OpSharding::MAXIMAL:
      if (num_shards == 1) return buffers::Tiles{};
      return absl::InvalidArgumentError(absl::StrCat("a value held by one device (maximal sharding) cannot be an array over ",
                                                     num_shards, " devices; shard or replicate it"));
    case OpSharding::TUPLE:
      if (proto.tuple_shardings_size() == 1 && proto.tuple_shardings(0).type() != OpSharding::TUPLE) {
        return OpShardingToTiles(proto.tuple_shardings(0), num_shards, rank);
      }
      return absl::InvalidArgumentError(
          absl::StrCat("a sharding of a tuple of ", proto.tuple_shardings_size(), " for a single array"));
    case OpSharding::OTHER:
      return TiledToTiles(proto, num_shards, rank);
    default:
      return absl::InvalidArgumentError(absl::StrCat("unknown kind of sharding ", static_cast<int>(proto.type())));
  }
}

absl::StatusOr<buffers::Sharding> OpShardingToSharding(const OpSharding& proto, std::vector<DeviceId> devices,
                                                       std::string memory_kind, int rank) {
  if (devices.empty()) return absl::InvalidArgumentError("a sharding without devices");
  PW_ASSIGN_OR_RETURN(buffers::Tiles tiles, OpShardingToTiles(proto, devices.size(), rank));
  return buffers::Sharding::Tiled(std::move(devices), std::move(memory_kind), std::move(tiles));
}

absl::StatusOr<buffers::Sharding> OpShardingToSharding(std::string_view serialized, std::vector<DeviceId> devices,
                                                       std::string memory_kind, int rank) {
  OpSharding proto;
  if (!proto.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding of ", serialized.size(), " bytes is not an xla.OpSharding"));
  }
  return OpShardingToSharding(proto, std::move(devices), std::move(memory_kind), rank);
}

OpSharding ShardingToOpSharding(const buffers::Sharding& sharding) {
  OpSharding proto;
  if (sharding.fully_replicated()) {
    proto.set_type(OpSharding::REPLICATED);
    return proto;
  }
  proto.set_type(OpSharding::OTHER);
  for (int64_t count : sharding.tiles().counts) proto.add_tile_assignment_dimensions(count);
  const int64_t tiles = sharding.num_tiles();
  const int64_t copies = sharding.num_shards() / tiles;
  if (copies > 1) {
    proto.add_tile_assignment_dimensions(copies);
    proto.set_replicate_on_last_tile_dim(true);
  }
  std::vector<std::pair<int64_t, int>> order;  // by tile, then by shard
  for (int s = 0; s < sharding.num_shards(); ++s) order.emplace_back(sharding.TileOfShard(s), s);
  std::sort(order.begin(), order.end());
  for (const auto& [tile, shard] : order) proto.add_tile_assignment_devices(shard);
  return proto;
}

}  // namespace pw::program
