// From one call to the commands for the hosts: exactly one Execute for each host concerned, whatever the number of shards.
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

// Names the completion of a host's command. Called once for each command.
using NameOp = absl::FunctionRef<OpId(HostId)>;

struct ExecuteCall {
  SessionId session;
  const program::Executable* executable;
  absl::Span<const ArrayId> args;
  absl::Span<const ArrayId> results;
  int32_t launch_id = 0;
  absl::Span<const int32_t> non_donatable;
  bool report_device_time = false;
  uint64_t grant = 0;   // the gang whose grant it waits for; 0: it is granted
  uint64_t launch = 0;  // names the launch on all its hosts; for executables of several
  uint64_t gang = 0;    // said for the trace
};

// The command to one of the hosts, all of which are told the same.
::pathways::v1::Command MakeExecute(const ExecuteCall& call, OpId op);

void PlanExecute(const ExecuteCall& call, NameOp name_op, Outbox& outbox);

// The hosts of a computation's devices, ascending. NOT_FOUND if a device is not there, INVALID_ARGUMENT if one is listed twice.
absl::StatusOr<std::vector<HostId>> HostsOfComputation(const resource::Topology& topology, absl::Span<const DeviceId> devices);

}  // namespace pw::dispatch
