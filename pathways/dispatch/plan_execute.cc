#include "pathways/dispatch/plan_execute.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"

namespace pw::dispatch {

::pathways::v1::Command MakeExecute(const ExecuteCall& call, OpId op) {
  ::pathways::v1::Command command;
  auto& execute = *command.mutable_execute();
  execute.set_op(op.v);
  execute.set_executable(call.executable->id.v);
  if (SessionOfName(op.v) != call.session) execute.set_session(call.session.v);
  execute.mutable_args()->Reserve(static_cast<int>(call.args.size()));
  for (ArrayId arg : call.args) execute.add_args(arg.v);
  execute.mutable_results()->Reserve(static_cast<int>(call.results.size()));
  for (ArrayId result : call.results) execute.add_results(result.v);
  execute.set_launch_id(call.launch_id);
  for (int32_t index : call.non_donatable) execute.add_non_donatable(index);
  execute.set_report_device_time(call.report_device_time);
  execute.set_grant(call.grant);
  execute.set_launch(call.launch);
  execute.set_gang(call.gang);
  execute.set_stream(call.stream);
  return command;
}

void PlanExecute(const ExecuteCall& call, NameOp name_op, Outbox& outbox) {
  for (HostId host : call.executable->hosts) outbox.Add(host, MakeExecute(call, name_op(host)));
}

absl::StatusOr<std::vector<HostId>> HostsOfComputation(const resource::Topology& topology, absl::Span<const DeviceId> devices) {
  std::set<HostId> hosts;
  absl::flat_hash_set<DeviceId> seen;
  for (DeviceId id : devices) {
    PW_ASSIGN_OR_RETURN(const resource::Device* device, topology.GetDevice(id));
    if (!seen.insert(id).second)
      return absl::InvalidArgumentError(absl::StrCat("the computation names ", ToString(id), " twice"));
    hosts.insert(device->host);
  }
  return std::vector<HostId>(hosts.begin(), hosts.end());
}

}  // namespace pw::dispatch
