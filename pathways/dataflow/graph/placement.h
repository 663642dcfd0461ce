// Placement: maps each shard of a node to the host that holds it. A compact value: a uniform cluster of any size is one block.
//
// Shards are numbered 0 to num_shards()-1. A block is a number of consecutive hosts, each with the same number of consecutive
// shards. Blocks follow each other, and the sequence of blocks is repeated `repeat` times. Repetition serves the cyclic layouts of
// meshes in which host boundaries do not follow the order of the shards:
//
//   - blocks {(host 3, 2 hosts, 4 shards)}, repeat 1:  shards 0-3 on host 3, 4-7 on host 4
//   - blocks {(host 0, 2 hosts, 1 shard)}, repeat 3:   shards 0, 2, 4 on host 0; 1, 3, 5 on host 1
//
// Invariants:
//   PL-1  every shard is on exactly one host
//   PL-2  memory is O(blocks), for any number of hosts and shards
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/dataflow/graph/host_set.h"

namespace pw::dataflow {

class Placement {
 public:
  static constexpr uint32_t kMaxShards = 1u << 24;
  static constexpr size_t kMaxBlocks = 1u << 16;

  struct Block {
    HostId first_host;
    uint32_t hosts = 0;
    uint32_t shards_per_host = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };

  // INVALID_ARGUMENT: no blocks, empty blocks, more shards or blocks than the limits, or host numbers that overflow.
  static absl::StatusOr<Placement> Create(std::vector<Block> blocks, uint32_t repeat = 1);
  // Returns the compact form of a layout, given the host of each shard. INVALID_ARGUMENT if it is empty or beyond the limits.
  static absl::StatusOr<Placement> FromHosts(absl::Span<const HostId> host_of_shard);
  // REQUIRES: within the limits.
  static Placement Uniform(HostId first_host, uint32_t hosts, uint32_t shards_per_host);
  static Placement OnHost(HostId host, uint32_t shards = 1) { return Uniform(host, 1, shards); }
  // Puts one shard on each of these hosts, in ascending order. REQUIRES: not empty, within the limits.
  static Placement OnePerHost(const HostSet& hosts);

  uint32_t num_shards() const { return period_ * repeat_; }
  const HostSet& hosts() const { return hosts_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  uint32_t repeat() const { return repeat_; }

  // REQUIRES for HostOf and EndOfHostAt: shard < num_shards()
  HostId HostOf(uint32_t shard) const;
  // Returns the end of a run of shards on one host: shards [shard, EndOfHostAt(shard)) all lie on HostOf(shard).
  uint32_t EndOfHostAt(uint32_t shard) const;
  // Returns the host's shards, ascending; empty if it has none.
  std::vector<uint32_t> ShardsOf(HostId host) const;
  uint32_t NumShardsOf(HostId host) const;

  friend bool operator==(const Placement& a, const Placement& b) { return a.blocks_ == b.blocks_ && a.repeat_ == b.repeat_; }

 private:
  Placement(std::vector<Block> blocks, uint32_t repeat);
  size_t BlockOf(uint32_t shard_in_period) const;

  std::vector<Block> blocks_;
  std::vector<uint32_t> starts_;  // per block: its first shard
  uint32_t period_ = 0;
  uint32_t repeat_ = 1;
  HostSet hosts_;
};

}  // namespace pw::dataflow
