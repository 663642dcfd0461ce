// Plans copies and reshards: Move commands that tell each host what to send, what to receive, and how to assemble its new shards.
//
// A piece whose source is on the destination's host is copied there. Any other piece goes directly from host to host, under a transfer
// id that both hosts are told; the controller never handles the bytes. The plan may declare a shard equal to another on its host
// (ReshardShard::same_as). Then a second command to that host copies it from the other, and its elements cross the network once.
// Sends to one host, and receives, that follow each other in even steps are written as one entry (program/repeated_moves.h). So commands
// between evenly cut arrays do not grow with the number of shards.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

struct MoveCall {
  SessionId session;
  ArrayId source;
  const buffers::ArraySpec* source_spec;
  ArrayId result;
  const buffers::ArraySpec* result_spec;
};

// Returns the plan in which shard i of the source becomes shard i of the result. REQUIRES: both have the same tiles and number of
// shards.
buffers::ReshardPlan ShardwisePlan(const buffers::ArraySpec& source);

// Adds the commands of a plan. `name_transfer` returns a new id at each call. REQUIRES: the topology has all devices; the plan is
// for these arrays.
void PlanMove(const resource::Topology& topology, const MoveCall& call, const buffers::ReshardPlan& plan,
              absl::FunctionRef<uint64_t()> name_transfer, NameOp name_op, Outbox& outbox);

}  // namespace pw::dispatch
