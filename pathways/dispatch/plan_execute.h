// Plans the execution of one executable: exactly one Execute command per host, for any number of shards.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/program/executable.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

// Returns the op of a command to the host, under which its completion is reported. Called once per command.
using NameOp = absl::FunctionRef<OpId(HostId)>;

struct ExecuteCall {
  SessionId session;
  const program::Executable* executable;
  absl::Span<const ArrayId> args;
  absl::Span<const ArrayId> results;
  int32_t launch_id = 0;
  absl::Span<const int32_t> non_donatable;
  bool report_device_time = false;
  uint64_t grant = 0;   // the gang whose grant it waits for; 0: granted already
  uint64_t launch = 0;  // the id of the launch on all hosts, for executables on several hosts
  uint64_t gang = 0;    // for the trace
  uint64_t stream = 0;  // of a Python function
};

// Returns the command to one of the hosts. Commands to different hosts differ only in `op`.
::pathways::v1::Command MakeExecute(const ExecuteCall& call, OpId op);

void PlanExecute(const ExecuteCall& call, NameOp name_op, Outbox& outbox);

// Returns the hosts of a computation's devices, ascending. NOT_FOUND if a device is unknown, INVALID_ARGUMENT if one is listed twice.
absl::StatusOr<std::vector<HostId>> HostsOfComputation(const resource::Topology& topology, absl::Span<const DeviceId> devices);

}  // namespace pw::dispatch
