#include "pathways/dispatch/plan_files.h"

#include <algorithm>
#include <utility>

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;

// For each tile, the first shard on each host that holds it.
using ShardsOfTiles = std::vector<std::map<HostId, int32_t>>;

ShardsOfTiles FindHolders(const resource::Topology& topology, const buffers::Sharding& sharding) {
  ShardsOfTiles holders(sharding.num_tiles());
  for (int shard = 0; shard < sharding.num_shards(); ++shard) {
    const HostId host = topology.FindDevice(sharding.devices()[shard])->host;
    holders[sharding.TileOfShard(shard)].insert({host, shard});
  }
  return holders;
}

// Returns the holder with the least to write, and its shard.
std::pair<HostId, int32_t> Writer(const std::map<HostId, int32_t>& holders, const WriteLoad& load) {
  auto bytes = [&](HostId host) {
    const auto found = load.find(host);
    return found == load.end() ? 0 : found->second;
  };
  return *std::min_element(holders.begin(), holders.end(),
                           [&](const auto& a, const auto& b) { return bytes(a.first) < bytes(b.first); });
}

}  // namespace

::pathways::v1::StoredArray DescribeStored(const std::string& name, const buffers::ArraySpec& spec) {
  ::pathways::v1::StoredArray stored;
  stored.set_name(name);
  stored.set_dtype(static_cast<int32_t>(spec.dtype));
  stored.mutable_dims()->Add(spec.dims.begin(), spec.dims.end());
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    const int64_t tiles = spec.sharding.fully_replicated() ? 1 : spec.sharding.tiles().counts[d];
    stored.add_chunks(std::max<int64_t>(1, (spec.dims[d] + tiles - 1) / tiles));
  }
  return stored;
}

std::vector<HostId> PlanSave(const resource::Topology& topology, const FileCall& call, const std::string& save, WriteLoad* load,
                             NameOp name_op, Outbox& outbox) {
  const ShardsOfTiles holders = FindHolders(topology, call.spec->sharding);
  std::map<HostId, Command> by_host;
  for (size_t tile = 0; tile < holders.size(); ++tile) {
    const buffers::Region region = call.spec->sharding.TileRegion(call.spec->dims, static_cast<int64_t>(tile));
    if (region.empty()) continue;
    const auto [host, shard] = Writer(holders[tile], *load);
    (*load)[host] += region.elements() * buffers::HostBytes(call.spec->dtype);
    auto& proto = *by_host[host].mutable_save_tiles()->add_tiles();
    proto.set_shard(shard);
    proto.mutable_start()->Add(region.start.begin(), region.start.end());
  }
  std::vector<HostId> hosts;
  for (auto& [host, command] : by_host) {
    auto& tiles = *command.mutable_save_tiles();
    tiles.set_op(name_op(host).v);
    tiles.set_session(call.session.v);
    tiles.set_save(save);
    tiles.set_location(*call.location);
    tiles.set_user(*call.user);
    *tiles.mutable_stored() = DescribeStored(*call.name, *call.spec);
    tiles.set_array(call.array.v);
    tiles.set_host(topology.Describe(*topology.FindHost(host)));
    outbox.Add(host, std::move(command));
    hosts.push_back(host);
  }
  return hosts;
}

void PlanLoad(const resource::Topology& topology, const FileCall& call, NameOp name_op, Outbox& outbox) {
  const buffers::Sharding& sharding = call.spec->sharding;
  std::map<HostId, std::map<int64_t, std::vector<int32_t>>> by_host;  // the shards of each tile on each host
  for (int shard = 0; shard < sharding.num_shards(); ++shard) {
    const HostId host = topology.FindDevice(sharding.devices()[shard])->host;
    by_host[host][sharding.TileOfShard(shard)].push_back(shard);
  }
  for (const auto& [host, tiles] : by_host) {
    Command command;
    auto& load = *command.mutable_load_tiles();
    load.set_op(name_op(host).v);
    load.set_session(call.session.v);
    load.set_location(*call.location);
    load.set_user(*call.user);
    *load.mutable_stored() = DescribeStored(*call.name, *call.spec);
    load.mutable_stored()->clear_chunks();
    load.set_array(call.array.v);
    load.set_host(topology.Describe(*topology.FindHost(host)));
    for (const auto& [tile, shards] : tiles) {
      const buffers::Region region = sharding.TileRegion(call.spec->dims, tile);
      auto& proto = *load.add_tiles();
      proto.mutable_region()->mutable_start()->Add(region.start.begin(), region.start.end());
      proto.mutable_region()->mutable_size()->Add(region.size.begin(), region.size.end());
      for (int32_t shard : shards) {
        auto& placement = *proto.add_placements();
        placement.set_shard(shard);
        placement.set_local_device(topology.FindDevice(sharding.devices()[shard])->local_ordinal);
        placement.set_memory_kind(sharding.memory_kind());
      }
    }
    outbox.Add(host, std::move(command));
  }
}

}  // namespace pw::dispatch
