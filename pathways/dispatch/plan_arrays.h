// Functions that plan commands to hosts: commands that make arrays from host buffers, give existing shards new names, or reinterpret their
// bytes. Each function adds one command for each host concerned to the outbox. `name_op` gives the name of a host's command.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

// One host buffer that feeds `shards`, all of shape `shard_dims`.
struct PutCall {
  SessionId session;
  ArrayId array;
  const buffers::ArraySpec* spec;
  absl::Span<const int64_t> shard_dims;
  const std::optional<buffers::Dims>* byte_strides;
  absl::Span<const int32_t> shards;
  uint64_t transfer;  // the id of the bytes on every host
  int64_t total_bytes;
  uint64_t lane_buffer = 0;  // not 0: the client itself sends this host buffer to the hosts
};

// Plans a put. Returns the hosts that get the bytes; each gets them once, however many shards it has. With `data` the bytes go in the
// commands. Otherwise the caller sends them as chunks, or the client by lane. REQUIRES: the shards exist, and the topology has their devices.
std::vector<HostId> PlanPut(const resource::Topology& topology, const PutCall& call, const std::optional<Bytes>& data,
                            NameOp name_op, Outbox& outbox);

struct AliasItem {
  ArrayId array;
  int32_t shard;
  ArrayId source;
  int32_t source_shard;
  DeviceId device;  // the device of both shards
};

// Plans commands that give existing shards new names. REQUIRES: the topology has the devices.
void PlanAlias(const resource::Topology& topology, SessionId session, absl::Span<const AliasItem> items, NameOp name_op,
               Outbox& outbox);

// Plans commands that reinterpret the bytes of an array's shards as another type.
void PlanBitcast(absl::Span<const HostId> hosts, SessionId session, ArrayId source, ArrayId result, buffers::DType dtype,
                 absl::Span<const int64_t> shard_dims, NameOp name_op, Outbox& outbox);

}  // namespace pw::dispatch
