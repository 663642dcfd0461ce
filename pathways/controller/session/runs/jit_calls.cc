#include "pathways/controller/session/runs/jit_calls.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/dispatch/plan_execute.h"

namespace pw::controller {

namespace {

bool MayDonate(const program::Executable& executable, const ExecuteRequest& request) {
  return executable.donated_inputs.size() > request.non_donatable.size();
}

}  // namespace

struct JitCalls::Call {
  ExecutableEntry* executable = nullptr;
  absl::InlinedVector<ArrayEntry*, 8> args;
  std::vector<Handle> results;
  absl::Status input_error;  // the error of the first argument that has one
};

absl::Status JitCalls::CheckArgs(ExecutableEntry& executable, Call& call) {
  const program::Executable& record = *executable.record;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const ArrayEntry& arg = *call.args[i];
    if (arg.is_error()) {
      call.input_error.Update(arg.record->status());
      continue;
    }
    if (executable.accepted[i] == arg.spec) continue;
    PW_RETURN_IF_ERROR(executable.function != nullptr ? session::CheckFunctionArgument(*executable.function, i, *arg.spec)
                                                      : program::CheckArgument(record, static_cast<int>(i), *arg.spec));
    executable.accepted[i] = arg.spec;
  }
  return absl::OkStatus();
}

absl::StatusOr<JitCalls::Call> JitCalls::Check(const ExecuteRequest& request) {
  Call call;
  PW_ASSIGN_OR_RETURN(call.executable, executables_->Find(request.executable));
  PW_RETURN_IF_ERROR(call.executable->gone);
  PW_RETURN_IF_ERROR(context_->refusal());
  const program::Executable& record = *call.executable->record;
  if (!request.devices.empty() && request.devices != record.devices) {
    return absl::UnimplementedError(
        absl::StrCat("program ", record.name, " cannot run on other devices than it was compiled for: compile it for them"));
  }
  call.results = request.results;
  for (size_t i = call.results.size(); request.results.empty() && i < record.outputs.size(); ++i)
    call.results.push_back(context_->arrays().NewHandle());
  if (call.results.size() != record.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", record.name, " has ", record.outputs.size(), " results, not ", call.results.size()));
  }
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(call.results));
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom({call.results.size(), 1}));
  if (request.args.size() != record.parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", record.name, " takes ", record.parameters.size(), " arguments, not ", request.args.size()));
  }
  if (request.non_donatable.size() > request.args.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.non_donatable.size(), " arguments are listed as not to be donated, but there are ", request.args.size()));
  }
  for (int32_t index : request.non_donatable) {
    if (index >= 0 && index < static_cast<int>(request.args.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("argument ", index, " is listed as not to be donated, but does not exist"));
  }
  for (Handle arg : request.args) {
    PW_ASSIGN_OR_RETURN(ArrayEntry * entry, context_->arrays().Live(arg));
    call.args.push_back(entry);
  }
  PW_RETURN_IF_ERROR(CheckArgs(*call.executable, call));
  if (!call.executable->unloaded.ok()) return NotLoaded(*call.executable);
  for (HostId host : record.hosts) {
    if (!fabric_->outbox().HasHost(host)) return NotLoaded(*call.executable);
  }
  return call;
}

absl::Status JitCalls::NotLoaded(const ExecutableEntry& entry) const {
  PW_RETURN_IF_ERROR(context_->devices().Check(entry.record->devices));
  PW_RETURN_IF_ERROR(entry.unloaded);
  return absl::DataLossError(
      absl::StrCat("program ", entry.record->name, " is not on the host that its devices have now: compile it again"));
}

void JitCalls::Launch(const ExecuteRequest& request, Call& call, const std::shared_ptr<ExecuteRun>& run) {
  const program::Executable& record = *call.executable->record;
  const int hosts = static_cast<int>(record.hosts.size());
  HostGroup* group = fabric_->groups().Of(record.hosts);
  absl::InlinedVector<ArrayId, 8> args, results;
  for (const ArrayEntry* arg : call.args) args.push_back(arg->record->id());
  auto waiting = std::make_shared<WeakArrays>();
  SessionContext::Record effects;  // a host may complete its shards while another still calls back
  if (hosts > 1 && call.executable->calls_back)
    effects = std::make_shared<buffers::LogicalArray>(ArrayId(), context_->id(), context_->no_spec(), hosts, nullptr);
  for (size_t i = 0; i < call.results.size(); ++i) {
    SessionContext::SpecPtr spec = record.output_spec(static_cast<int>(i));
    auto array = std::make_shared<buffers::LogicalArray>(context_->NewArrayId(), context_->id(), spec, hosts, group);
    results.push_back(array->id());
    waiting->push_back(array);
    context_->arrays().Insert(call.results[i], {std::move(array), std::move(spec), nullptr, false, effects});
  }
  if (effects != nullptr) waiting->push_back(effects);  // after the results, which hosts name by index
  Gangs::Launch launch{context_->id(), record.id, record.physical, record.hosts, args, results, MayDonate(record, request)};
  launch.name = record.name;
  const Gangs::Ticket ticket = fabric_->gangs().Submit(launch);
  dispatch::ExecuteCall plan{context_->id(),
                             &record,
                             args,
                             results,
                             request.launch_id,
                             request.non_donatable,
                             run != nullptr,
                             ticket.grant(),
                             hosts > 1 ? fabric_->NextId() : 0,
                             fabric_->recorder().on() ? ticket.gang.v : 0};
  const OpId op = context_->names().now().NextOpOfAll(run == nullptr && ReportGroups::Join(record.hosts.size()));
  auto add_op = [&](HostId host) {
    if (run == nullptr) return fabric_->ops().Add(host, op, waiting, nullptr, ticket.gang);
    const std::string platform = fabric_->topology().FindHost(host)->platform_name;
    ++run->missing;
    fabric_->ops().Add(
        host, op, waiting,
        [run, platform, fabric = fabric_](const absl::Status& status, std::optional<double> microseconds) {
          run->status.Update(status);
          // Hosts run in parallel: the slowest one counts.
          double& longest = run->result.device_microseconds[platform];
          longest = std::max(longest, microseconds.value_or(0));
          if (!microseconds.has_value() && longest == 0) run->result.device_microseconds.erase(platform);
          if (--run->missing == 0) run->AnswerWaiter(*fabric);
        },
        ticket.gang);
  };
  auto name_op = [&](HostId host) {
    add_op(host);
    if (fabric_->recorder().on()) context_->Trace(host, op, record.name, ticket.gang);
    return op;
  };
  dispatch::PlanExecute(plan, name_op, fabric_->outbox());
}

// The client considers donated arguments deleted as soon as it has sent the request, whether or not that succeeds.
void JitCalls::ConsumeDonated(const ExecuteRequest& request, const program::Executable& executable, bool launched) {
  for (int32_t index : executable.donated_inputs) {
    if (index >= static_cast<int32_t>(request.args.size())) continue;
    if (std::find(request.non_donatable.begin(), request.non_donatable.end(), index) != request.non_donatable.end()) continue;
    ArrayEntry* arg = context_->arrays().Find(request.args[index]);
    if (arg == nullptr || arg->is_deleted()) continue;
    if (launched) arg->record->Donate();
    context_->arrays().Delete({request.args[index]}).IgnoreError();
  }
}

absl::StatusOr<ExecuteReply> JitCalls::Execute(const ExecuteRequest& request, const std::shared_ptr<ExecuteRun>& run) {
  absl::StatusOr<Call> call = Check(request);
  if (!call.ok()) {
    if (run != nullptr) run->status = call.status();
    // Without handles for the results, the client cannot ask for them.
    if (auto entry = executables_->Find(request.executable); entry.ok()) ConsumeDonated(request, *(*entry)->record, false);
    return context_->Fail(request.results, {}, call.status());
  }
  const std::shared_ptr<const program::Executable> record = call->executable->record;
  const bool launch = call->input_error.ok();
  if (launch && call->executable->function != nullptr) {
    functions_->Launch({*record, call->args, call->results, run, request.stream});
  } else if (launch) {
    Launch(request, *call, run);
  } else {
    for (size_t i = 0; i < call->results.size(); ++i)
      context_->InsertError(call->results[i], record->output_spec(static_cast<int>(i)), call->input_error);
    if (run != nullptr) run->status = call->input_error;
  }
  ConsumeDonated(request, *record, launch);
  return ExecuteReply{std::move(call->results), record->output_specs};
}

}  // namespace pw::controller
