// Shardings: the devices that hold the pieces of a logical array.
//
// A Sharding lists devices in shard order (shard i is on devices()[i]) and gives the tile of the array that each holds. Tiles come
// from cutting every dimension d into counts[d] pieces of ceil(dim / counts[d]) elements, as XLA does; the last may be short or
// empty. Several shards may hold the same tile (replication). A fully replicated or row-major sharding stores no table per shard.
//
// Invariants:
//   SH-1  tiles().counts is empty (replicated, any rank) or has one entry >= 1 for each dimension
//   SH-2  every tile is held by at least one shard
//   SH-3  all shards hold the same shape when the dimensions divide evenly
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"

namespace pw::buffers {

using Dims = std::vector<int64_t>;

// A box of elements of an array.
struct Region {
  Dims start;
  Dims size;

  int64_t elements() const;
  bool empty() const { return elements() == 0; }
  friend bool operator==(const Region&, const Region&) = default;
};

// Returns the common part, or an empty region (all sizes 0) if there is none.
Region Intersect(const Region& a, const Region& b);

struct Tiles {
  Dims counts;                         // empty: every shard holds the whole array
  std::vector<int32_t> tile_of_shard;  // row-major tile number of each shard; empty: shard i holds tile i

  friend bool operator==(const Tiles&, const Tiles&) = default;
};

class Sharding {
 public:
  Sharding() = default;
  static Sharding SingleDevice(DeviceId device, std::string memory_kind);
  static Sharding Replicated(std::vector<DeviceId> devices, std::string memory_kind);
  // Returns INVALID_ARGUMENT if the tiles and devices break an invariant. One tile (counts all 1) is the same as Replicated.
  static absl::StatusOr<Sharding> Tiled(std::vector<DeviceId> devices, std::string memory_kind, Tiles tiles);

  const std::vector<DeviceId>& devices() const { return *devices_; }
  int num_shards() const { return static_cast<int>(devices_->size()); }
  const std::string& memory_kind() const { return memory_kind_; }  // empty: the default memory
  const Tiles& tiles() const { return *tiles_; }
  bool fully_replicated() const { return tiles_->counts.empty(); }
  int64_t num_tiles() const;
  int64_t TileOfShard(int shard) const;  // row-major tile number. REQUIRES: the shard exists

  // The sharding as the client serialized it, which the frontend echoes. Empty type: not given. Not part of equality.
  struct WireForm {
    std::string type_name;
    std::string data;
  };
  const std::shared_ptr<const WireForm>& wire_form() const { return wire_form_; }
  Sharding WithWireForm(WireForm form) const;

  // Returns INVALID_ARGUMENT if there are no devices, the ranks differ or a dimension is negative.
  absl::Status CheckFits(absl::Span<const int64_t> dims) const;
  // Returns the region of a tile. REQUIRES: CheckFits(dims), and the tile exists.
  Region TileRegion(absl::Span<const int64_t> dims, int64_t tile) const;

  // Return the region, and its shape, that shard `shard` of an array of shape `dims` holds. INVALID_ARGUMENT if the sharding does not fit
  // or has no such shard.
  absl::StatusOr<Region> ShardRegion(absl::Span<const int64_t> dims, int shard) const;
  absl::StatusOr<Dims> ShardDims(absl::Span<const int64_t> dims, int shard) const;

  // Both drop the wire form, which no longer matches.
  Sharding WithDevices(std::vector<DeviceId> devices) const;  // REQUIRES: as many as before
  Sharding WithMemoryKind(std::string memory_kind) const;

  friend bool operator==(const Sharding& a, const Sharding& b);

 private:
  std::shared_ptr<const std::vector<DeviceId>> devices_ = std::make_shared<const std::vector<DeviceId>>();
  std::shared_ptr<const Tiles> tiles_ = std::make_shared<const Tiles>();
  std::string memory_kind_;
  std::shared_ptr<const WireForm> wire_form_;
};

}  // namespace pw::buffers
