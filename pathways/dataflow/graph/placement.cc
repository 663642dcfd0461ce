#include "pathways/dataflow/graph/placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"

namespace pw::dataflow {
namespace {

absl::Status Check(const std::vector<Placement::Block>& blocks, uint32_t repeat) {
  if (blocks.empty() || repeat == 0) return absl::InvalidArgumentError("a placement without shards");
  if (blocks.size() > Placement::kMaxBlocks)
    return absl::InvalidArgumentError(absl::StrCat("a placement of ", blocks.size(), " blocks; at most ", Placement::kMaxBlocks));
  uint64_t shards = 0;
  for (const Placement::Block& block : blocks) {
    if (block.hosts == 0 || block.shards_per_host == 0)
      return absl::InvalidArgumentError("a block of a placement without hosts or without shards");
    if (uint64_t{block.first_host.v} + block.hosts - 1 > UINT32_MAX)
      return absl::InvalidArgumentError(absl::StrCat("a block of ", block.hosts, " hosts from ", ToString(block.first_host),
                                                     " on passes the last host number"));
    // Both factors are below 2^32, and the sum is checked after each block, so it cannot overflow.
    shards += uint64_t{block.hosts} * block.shards_per_host;
    if (shards > Placement::kMaxShards) break;
  }
  if (shards > Placement::kMaxShards || shards * repeat > Placement::kMaxShards)
    return absl::InvalidArgumentError(absl::StrCat("a placement of more than ", Placement::kMaxShards, " shards"));
  return absl::OkStatus();
}

// Appends `count` shards on `host`; extends the last block if they continue its pattern.
void Append(std::vector<Placement::Block>* blocks, HostId host, uint32_t count) {
  if (!blocks->empty()) {
    Placement::Block& last = blocks->back();
    if (last.shards_per_host == count && host.v == uint64_t{last.first_host.v} + last.hosts) {
      ++last.hosts;
      return;
    }
  }
  blocks->push_back({host, 1, count});
}

// The smallest period of the sequence, or its whole length.
size_t Period(absl::Span<const HostId> hosts) {
  std::vector<size_t> border(hosts.size(), 0);  // per prefix: length of its longest proper prefix that is also its suffix
  for (size_t i = 1, k = 0; i < hosts.size(); ++i) {
    while (k > 0 && hosts[i] != hosts[k]) k = border[k - 1];
    if (hosts[i] == hosts[k]) ++k;
    border[i] = k;
  }
  const size_t period = hosts.size() - border.back();
  return hosts.size() % period == 0 ? period : hosts.size();
}

}  // namespace

absl::StatusOr<Placement> Placement::Create(std::vector<Block> blocks, uint32_t repeat) {
  if (absl::Status status = Check(blocks, repeat); !status.ok()) return status;
  return Placement(std::move(blocks), repeat);
}

absl::StatusOr<Placement> Placement::FromHosts(absl::Span<const HostId> host_of_shard) {
  if (host_of_shard.empty() || host_of_shard.size() > kMaxShards)
    return absl::InvalidArgumentError(absl::StrCat("a placement has 1 to ", kMaxShards, " shards, not ", host_of_shard.size()));
  size_t period = Period(host_of_shard);
  // If all shards lie on one host, they form one block, not a repetition.
  if (period == 1) period = host_of_shard.size();
  std::vector<Block> blocks;
  for (size_t i = 0; i < period;) {
    size_t end = i + 1;
    while (end < period && host_of_shard[end] == host_of_shard[i]) ++end;
    Append(&blocks, host_of_shard[i], static_cast<uint32_t>(end - i));
    i = end;
  }
  return Create(std::move(blocks), static_cast<uint32_t>(host_of_shard.size() / period));
}

Placement Placement::Uniform(HostId first_host, uint32_t hosts, uint32_t shards_per_host) {
  absl::StatusOr<Placement> placement = Create({{first_host, hosts, shards_per_host}});
  PW_CHECK(placement.ok());
  return *std::move(placement);
}

Placement Placement::OnePerHost(const HostSet& hosts) {
  std::vector<Block> blocks;
  for (const HostSet::Interval& interval : hosts.intervals()) blocks.push_back({interval.first, interval.count, 1});
  absl::StatusOr<Placement> placement = Create(std::move(blocks));
  PW_CHECK(placement.ok());
  return *std::move(placement);
}

Placement::Placement(std::vector<Block> blocks, uint32_t repeat) : blocks_(std::move(blocks)), repeat_(repeat) {
  std::vector<HostSet::Interval> intervals;
  for (const Block& block : blocks_) {
    starts_.push_back(period_);
    period_ += block.hosts * block.shards_per_host;
    intervals.push_back({block.first_host, block.hosts});
  }
  hosts_ = HostSet(std::move(intervals));
}

size_t Placement::BlockOf(uint32_t shard_in_period) const {
  return std::upper_bound(starts_.begin(), starts_.end(), shard_in_period) - starts_.begin() - 1;
}

HostId Placement::HostOf(uint32_t shard) const {
  const uint32_t at = shard % period_;
  const size_t i = BlockOf(at);
  return HostId(blocks_[i].first_host.v + (at - starts_[i]) / blocks_[i].shards_per_host);
}

uint32_t Placement::EndOfHostAt(uint32_t shard) const {
  const uint32_t at = shard % period_;
  const size_t i = BlockOf(at);
  const uint32_t in_host = (at - starts_[i]) % blocks_[i].shards_per_host;
  return shard + (blocks_[i].shards_per_host - in_host);
}

std::vector<uint32_t> Placement::ShardsOf(HostId host) const {
  std::vector<uint32_t> in_period;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const uint64_t place = uint64_t{host.v} - block.first_host.v;  // huge if the host comes before the block
    if (place >= block.hosts) continue;
    const uint32_t first = starts_[i] + static_cast<uint32_t>(place) * block.shards_per_host;
    for (uint32_t s = 0; s < block.shards_per_host; ++s) in_period.push_back(first + s);
  }
  std::vector<uint32_t> shards;
  shards.reserve(in_period.size() * repeat_);
  for (uint32_t r = 0; r < repeat_ && !in_period.empty(); ++r) {
    for (uint32_t s : in_period) shards.push_back(r * period_ + s);
  }
  return shards;
}

uint32_t Placement::NumShardsOf(HostId host) const {
  uint32_t count = 0;
  for (const Block& block : blocks_) {
    if (uint64_t{host.v} - block.first_host.v < block.hosts) count += block.shards_per_host;
  }
  return count * repeat_;
}

}  // namespace pw::dataflow
