#include "pathways/buffers/reshard_plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

// The source shards that hold each tile, and the choice among them for a given reader.
class Holders {
 public:
  Holders(const Sharding& source, const std::function<HostId(DeviceId)>& host_of);

  struct Choice {
    int shard;
    bool local;  // on the reader's host
  };
  Choice Choose(int64_t tile, int reader, DeviceId device, HostId host);

 private:
  struct Holder {
    HostId host;
    int shard;
    friend auto operator<=>(const Holder&, const Holder&) = default;
  };
  Choice Next(int64_t tile);

  const Sharding& source_;
  std::vector<size_t> first_;         // index of each tile's first entry in holders_; one more at the end
  std::vector<Holder> holders_;       // by tile, then host, then shard
  std::vector<size_t> hosts_;         // of each tile and each host of it: the first entry in holders_; one more at the end
  std::vector<size_t> first_host_;    // index of each tile's first entry in hosts_; one more at the end
  std::vector<size_t> times_chosen_;  // of each tile: by readers on other hosts. Does not start at 0: see the constructor
  absl::flat_hash_map<DeviceId, int> shard_on_;
};

Holders::Holders(const Sharding& source, const std::function<HostId(DeviceId)>& host_of)
    : source_(source), first_(source.num_tiles() + 1, 0), holders_(source.num_shards()), times_chosen_(source.num_tiles(), 0) {
  const int shards = source.num_shards();
  for (int s = 0; s < shards; ++s) ++first_[source.TileOfShard(s) + 1];
  for (size_t t = 1; t < first_.size(); ++t) first_[t] += first_[t - 1];
  std::vector<size_t> fill(first_.begin(), first_.end() - 1);
  shard_on_.reserve(shards);
  for (int s = 0; s < shards; ++s) {
    const DeviceId device = source.devices()[s];
    holders_[fill[source.TileOfShard(s)]++] = {host_of(device), s};
    shard_on_.try_emplace(device, s);
  }
  for (size_t t = 0; t + 1 < first_.size(); ++t) {
    std::sort(holders_.begin() + first_[t], holders_.begin() + first_[t + 1]);
    first_host_.push_back(hosts_.size());
    for (size_t h = first_[t]; h < first_[t + 1]; ++h) {
      if (h == first_[t] || holders_[h].host != holders_[h - 1].host) hosts_.push_back(h);
    }
    times_chosen_[t] = t;  // tiles on the same hosts start with different ones
  }
  first_host_.push_back(hosts_.size());
  hosts_.push_back(holders_.size());
}

// Returns the holder for the next reader on another host. The hosts take turns, and so do the shards of each.
Holders::Choice Holders::Next(int64_t tile) {
  const size_t hosts = first_host_[tile + 1] - first_host_[tile], time = times_chosen_[tile]++;
  const size_t host = first_host_[tile] + time % hosts;
  const size_t shards = hosts_[host + 1] - hosts_[host];
  return {holders_[hosts_[host] + time / hosts % shards].shard, false};
}

Holders::Choice Holders::Choose(int64_t tile, int reader, DeviceId device, HostId host) {
  auto same = shard_on_.find(device);
  if (same != shard_on_.end() && source_.TileOfShard(same->second) == tile) return {same->second, true};
  const auto begin = holders_.begin() + first_[tile], end = holders_.begin() + first_[tile + 1];
  const auto local = std::lower_bound(begin, end, host, [](const Holder& h, HostId id) { return h.host < id; });
  const auto local_end = std::upper_bound(local, end, host, [](HostId id, const Holder& h) { return id < h.host; });
  if (local != local_end) return {local[reader % (local_end - local)].shard, true};
  return Next(tile);
}

// Calls visit(tile) for every source tile that has elements in `region`. Costs as much as there are such tiles. REQUIRES: `region` is not
// empty.
template <class Visit>
void ForEachTile(const Dims& dims, const Dims& counts, const Region& region, Visit visit) {
  if (counts.empty()) return visit(0);
  const size_t rank = dims.size();
  Dims low(rank), high(rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t piece = dims[d] / counts[d] + (dims[d] % counts[d] != 0);
    low[d] = region.start[d] / piece;
    high[d] = (region.start[d] + region.size[d] - 1) / piece;
  }
  Dims at = low;
  while (true) {
    int64_t tile = 0;
    for (size_t d = 0; d < rank; ++d) tile = tile * counts[d] + at[d];
    visit(tile);
    size_t d = rank;
    while (d > 0 && at[d - 1] == high[d - 1]) {
      at[d - 1] = low[d - 1];
      --d;
    }
    if (d == 0) return;
    ++at[d - 1];
  }
}

Region RelativeTo(const Region& inner, const Region& outer) {
  Region r = inner;
  for (size_t d = 0; d < r.start.size(); ++d) r.start[d] -= outer.start[d];
  return r;
}

struct Planner {
  const Dims& dims;
  const Sharding& source;
  Holders holders;

  // Adds the pieces of one destination region. Returns whether any of them comes from another host.
  bool AddPieces(const Region& region, DeviceId device, HostId host, ReshardShard& out) {
    bool crosses = false;
    ForEachTile(dims, source.tiles().counts, region, [&](int64_t tile) {
      const Region held = source.TileRegion(dims, tile);
      const Region common = Intersect(held, region);
      const Holders::Choice choice = holders.Choose(tile, out.shard, device, host);
      crosses |= !choice.local;
      out.pieces.push_back({choice.shard, RelativeTo(common, held), RelativeTo(common, region)});
    });
    return crosses;
  }
};

}  // namespace

absl::StatusOr<ReshardPlan> PlanReshard(const Dims& dims, const Sharding& source, const Sharding& destination,
                                        const std::function<HostId(DeviceId)>& host_of) {
  PW_RETURN_IF_ERROR(source.CheckFits(dims));
  PW_RETURN_IF_ERROR(destination.CheckFits(dims));
  Planner planner{dims, source, Holders(source, host_of)};
  // By host and tile: the first destination shard with a piece from another host.
  absl::flat_hash_map<std::pair<HostId, int64_t>, int> fetched;
  ReshardPlan plan(destination.num_shards());
  for (int s = 0; s < destination.num_shards(); ++s) {
    ReshardShard& shard = plan[s];
    shard.shard = s;
    const int64_t tile = destination.TileOfShard(s);
    const DeviceId device = destination.devices()[s];
    const HostId host = host_of(device);
    if (auto it = fetched.find({host, tile}); it != fetched.end()) {  // common for replicated arrays
      shard.same_as = it->second;
      continue;
    }
    const Region region = destination.TileRegion(dims, tile);
    if (!region.empty() && planner.AddPieces(region, device, host, shard)) fetched.emplace(std::make_pair(host, tile), s);
  }
  return plan;
}

}  // namespace pw::buffers
