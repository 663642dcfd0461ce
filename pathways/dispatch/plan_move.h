// Copies and reshards as commands: each host learns what to send, what to receive, and how its new shards are put together.
//
// A piece whose source is on the destination's host is copied there; any other crosses directly from host to host under a
// transfer name that both hosts are told. The controller never sees the bytes. Shards that a plan declares equal to another on
// their host (ReshardShard::same_as) are copied from it by a second command to that host, so that their elements cross once.
// Sends to one host, and receives, that follow each other in even steps are written as one (program/repeated_moves.h): commands between
// arrays that are cut evenly do not grow with the number of shards.
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

// Shard i of the source becomes shard i of the result, whatever it holds. REQUIRES: both have the same tiles and number of
// shards.
buffers::ReshardPlan ShardwisePlan(const buffers::ArraySpec& source);

// `name_transfer` gives a new name each time. REQUIRES: all devices are there, and the plan is one for these two arrays.
void PlanMove(const resource::Topology& topology, const MoveCall& call, const buffers::ReshardPlan& plan,
              absl::FunctionRef<uint64_t()> name_transfer, NameOp name_op, Outbox& outbox);

}  // namespace pw::dispatch
