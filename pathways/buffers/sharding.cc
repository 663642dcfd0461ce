#include "pathways/buffers/sharding.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

// Returns the number of tiles. No sharding has more tiles than shards, so a product beyond the number of shards is an error.
absl::StatusOr<int64_t> CountTiles(const Dims& counts, size_t num_shards) {
  int64_t tiles = 1;
  for (int64_t count : counts) {
    if (count < 1)
      return absl::InvalidArgumentError(absl::StrCat("tile counts must be at least 1, got [", absl::StrJoin(counts, ","), "]"));
    if (__builtin_mul_overflow(tiles, count, &tiles) || tiles > static_cast<int64_t>(num_shards)) {
      return absl::InvalidArgumentError(absl::StrCat("tile counts [", absl::StrJoin(counts, ","),
                                                     "] make more tiles than the sharding's ", num_shards, " devices"));
    }
  }
  return tiles;
}

// Checks SH-2, and that the table names tiles that exist.
absl::Status CheckTable(const std::vector<int32_t>& table, int64_t tiles, size_t num_shards) {
  if (table.empty()) {
    if (tiles == static_cast<int64_t>(num_shards)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a sharding without a tile table needs one device a tile, got ", tiles,
                                                   " tiles over ", num_shards, " devices"));
  }
  if (table.size() != num_shards) {
    return absl::InvalidArgumentError(absl::StrCat("the tile table has ", table.size(), " entries for ", num_shards, " devices"));
  }
  std::vector<bool> held(tiles, false);
  for (int32_t tile : table) {
    if (tile < 0 || tile >= tiles)
      return absl::InvalidArgumentError(absl::StrCat("tile ", tile, " does not exist; there are ", tiles));
    held[tile] = true;
  }
  auto missing = std::find(held.begin(), held.end(), false);
  if (missing == held.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no device holds tile ", missing - held.begin()));
}

bool IsIdentity(const std::vector<int32_t>& table) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

int64_t Region::elements() const {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t s : size) {
    if (s <= 0) return 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  return overflow ? std::numeric_limits<int64_t>::max() : n;
}

Region Intersect(const Region& a, const Region& b) {
  PW_CHECK(a.size.size() == b.size.size());
  const size_t rank = a.size.size();
  Region r{Dims(rank), Dims(rank)};
  for (size_t d = 0; d < rank; ++d) {
    r.start[d] = std::max(a.start[d], b.start[d]);
    r.size[d] = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]) - r.start[d];
    if (r.size[d] <= 0) return Region{Dims(rank, 0), Dims(rank, 0)};
  }
  return r;
}

Sharding Sharding::SingleDevice(DeviceId device, std::string memory_kind) { return Replicated({device}, std::move(memory_kind)); }

Sharding Sharding::Replicated(std::vector<DeviceId> devices, std::string memory_kind) {
  Sharding s;
  s.devices_ = std::make_shared<const std::vector<DeviceId>>(std::move(devices));
  s.memory_kind_ = std::move(memory_kind);
  return s;
}

absl::StatusOr<Sharding> Sharding::Tiled(std::vector<DeviceId> devices, std::string memory_kind, Tiles tiles) {
  PW_ASSIGN_OR_RETURN(const int64_t num_tiles, CountTiles(tiles.counts, devices.size()));
  const bool has_table = !tiles.tile_of_shard.empty();
  if (has_table || num_tiles > 1) PW_RETURN_IF_ERROR(CheckTable(tiles.tile_of_shard, num_tiles, devices.size()));
  if (has_table && IsIdentity(tiles.tile_of_shard)) tiles.tile_of_shard.clear();
  Sharding s = Replicated(std::move(devices), std::move(memory_kind));
  if (num_tiles > 1) s.tiles_ = std::make_shared<const Tiles>(std::move(tiles));
  return s;
}

Sharding Sharding::WithWireForm(WireForm form) const {
  Sharding s = *this;
  s.wire_form_ = std::make_shared<const WireForm>(std::move(form));
  return s;
}

int64_t Sharding::num_tiles() const {
  int64_t n = 1;
  for (int64_t count : tiles_->counts) n *= count;
  return n;
}

int64_t Sharding::TileOfShard(int shard) const {
  if (tiles_->counts.empty()) return 0;
  return tiles_->tile_of_shard.empty() ? shard : tiles_->tile_of_shard[shard];
}

absl::Status Sharding::CheckFits(absl::Span<const int64_t> dims) const {
  if (devices_->empty()) return absl::InvalidArgumentError("the sharding has no devices");
  if (!tiles_->counts.empty() && tiles_->counts.size() != dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding of rank ", tiles_->counts.size(),
                                                   " does not fit an array of shape [", absl::StrJoin(dims, ","), "]"));
  }
  for (int64_t dim : dims) {
    if (dim < 0)
      return absl::InvalidArgumentError(absl::StrCat("the shape [", absl::StrJoin(dims, ","), "] has a negative dimension"));
  }
  return absl::OkStatus();
}

Region Sharding::TileRegion(absl::Span<const int64_t> dims, int64_t tile) const {
  Region r{Dims(dims.size(), 0), Dims(dims.begin(), dims.end())};
  if (tiles_->counts.empty()) return r;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t count = tiles_->counts[d];
    const int64_t index = tile % count;
    tile /= count;
    const int64_t piece = CeilDiv(dims[d], count);
    // Pieces past the end are empty; the test comes before the product, which could overflow.
    r.start[d] = piece == 0 || index >= CeilDiv(dims[d], piece) ? dims[d] : index * piece;
    r.size[d] = std::min(piece, dims[d] - r.start[d]);
  }
  return r;
}

absl::StatusOr<Region> Sharding::ShardRegion(absl::Span<const int64_t> dims, int shard) const {
  PW_RETURN_IF_ERROR(CheckFits(dims));
  if (shard < 0 || shard >= num_shards()) {
    return absl::InvalidArgumentError(absl::StrCat("shard ", shard, " does not exist; the sharding has ", num_shards()));
  }
  return TileRegion(dims, TileOfShard(shard));
}

absl::StatusOr<Dims> Sharding::ShardDims(absl::Span<const int64_t> dims, int shard) const {
  PW_ASSIGN_OR_RETURN(Region region, ShardRegion(dims, shard));
  return std::move(region.size);
}

Sharding Sharding::WithDevices(std::vector<DeviceId> devices) const {
  PW_CHECK(devices.size() == devices_->size());
  Sharding s = *this;
  s.devices_ = std::make_shared<const std::vector<DeviceId>>(std::move(devices));
  s.wire_form_ = nullptr;
  return s;
}

Sharding Sharding::WithMemoryKind(std::string memory_kind) const {
  Sharding s = *this;
  s.memory_kind_ = std::move(memory_kind);
  s.wire_form_ = nullptr;
  return s;
}

bool operator==(const Sharding& a, const Sharding& b) {
  return a.memory_kind_ == b.memory_kind_ && (a.devices_ == b.devices_ || *a.devices_ == *b.devices_) &&
         (a.tiles_ == b.tiles_ || *a.tiles_ == *b.tiles_);
}

}  // namespace pw::buffers
