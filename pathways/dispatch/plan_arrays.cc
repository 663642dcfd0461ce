#include "pathways/dispatch/plan_arrays.h"

#include <map>
#include <utility>

namespace pw::dispatch {

using ::pathways::v1::Command;

std::vector<HostId> PlanPut(const resource::Topology& topology, const PutCall& call, const std::optional<Bytes>& data,
                            NameOp name_op, Outbox& outbox) {
  std::map<HostId, Command> by_host;
  const std::vector<DeviceId>& devices = call.spec->sharding.devices();
  for (int32_t shard : call.shards) {
    const resource::Device& device = *topology.FindDevice(devices[shard]);
    auto& placement = *by_host[device.host].mutable_put()->add_placements();
    placement.set_shard(shard);
    placement.set_local_device(device.local_ordinal);
    placement.set_memory_kind(call.spec->sharding.memory_kind());
  }
  std::vector<HostId> hosts;
  for (auto& [host, command] : by_host) {
    auto& put = *command.mutable_put();
    put.set_op(name_op(host).v);
    put.set_session(call.session.v);
    put.set_array(call.array.v);
    put.set_dtype(static_cast<int32_t>(call.spec->dtype));
    put.mutable_dims()->Add(call.shard_dims.begin(), call.shard_dims.end());
    if (call.byte_strides->has_value()) {
      put.set_has_byte_strides(true);
      put.mutable_byte_strides()->Add((*call.byte_strides)->begin(), (*call.byte_strides)->end());
    }
    put.set_transfer(call.transfer);
    put.set_total_bytes(call.total_bytes);
    put.set_lane_buffer(call.lane_buffer);
    put.set_payload_bytes(data.has_value() ? data->size() : 0);
    hosts.push_back(host);
    outbox.Add(host, std::move(command), data.has_value() ? std::vector<Bytes>{*data} : std::vector<Bytes>{});
  }
  return hosts;
}

void PlanAlias(const resource::Topology& topology, SessionId session, absl::Span<const AliasItem> items, NameOp name_op,
               Outbox& outbox) {
  std::map<HostId, Command> by_host;
  for (const AliasItem& item : items) {
    auto& proto = *by_host[topology.FindDevice(item.device)->host].mutable_alias()->add_items();
    proto.set_array(item.array.v);
    proto.set_shard(item.shard);
    proto.set_source_array(item.source.v);
    proto.set_source_shard(item.source_shard);
  }
  for (auto& [host, command] : by_host) {
    command.mutable_alias()->set_op(name_op(host).v);
    command.mutable_alias()->set_session(session.v);
    outbox.Add(host, std::move(command));
  }
}

void PlanBitcast(absl::Span<const HostId> hosts, SessionId session, ArrayId source, ArrayId result, buffers::DType dtype,
                 absl::Span<const int64_t> shard_dims, NameOp name_op, Outbox& outbox) {
  for (HostId host : hosts) {
    Command command;
    auto& bitcast = *command.mutable_bitcast();
    bitcast.set_op(name_op(host).v);
    bitcast.set_session(session.v);
    bitcast.set_source(source.v);
    bitcast.set_result(result.v);
    bitcast.set_dtype(static_cast<int32_t>(dtype));
    bitcast.mutable_dims()->Add(shard_dims.begin(), shard_dims.end());
    outbox.Add(host, std::move(command));
  }
}

}  // namespace pw::dispatch
