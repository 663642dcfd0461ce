// Execute, the hot path: one command to each host, one record for each result. Once an argument's spec has been checked, no cost depends on
// the number of shards.
#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/controller/session/publications/session_publications.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/dispatch/plan_execute.h"

namespace pw::controller {

namespace {

bool MayDonate(const program::Executable& executable, const ExecuteRequest& request) {
  return executable.donated_inputs.size() > request.non_donatable.size();
}

}  // namespace

struct SessionImpl::CheckedExecute {
  ExecutableEntry* executable = nullptr;
  absl::InlinedVector<ArrayEntry*, 8> args;
  std::vector<Handle> results;
  absl::Status input_error;  // the error of the first argument that has one
};

absl::Status SessionImpl::CheckArgs(ExecutableEntry& executable, CheckedExecute& call) {
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

absl::StatusOr<SessionImpl::CheckedExecute> SessionImpl::CheckExecute(const ExecuteRequest& request) {
  CheckedExecute call;
  PW_ASSIGN_OR_RETURN(call.executable, executable_table_.Find(request.executable));
  PW_RETURN_IF_ERROR(call.executable->gone);
  const program::Executable& record = *call.executable->record;
  if (!request.devices.empty() && request.devices != record.devices) {
    return absl::UnimplementedError(
        absl::StrCat("program ", record.name, " cannot run on other devices than it was compiled for: compile it for them"));
  }
  call.results = request.results;
  for (size_t i = call.results.size(); request.results.empty() && i < record.outputs.size(); ++i)
    call.results.push_back(NewHandle());
  if (call.results.size() != record.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", record.name, " has ", record.outputs.size(), " results, not ", call.results.size()));
  }
  PW_RETURN_IF_ERROR(arrays_.CheckNew(call.results));
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
    PW_ASSIGN_OR_RETURN(ArrayEntry * entry, arrays_.Live(arg));
    call.args.push_back(entry);
  }
  PW_RETURN_IF_ERROR(CheckArgs(*call.executable, call));
  if (!call.executable->unloaded.ok()) return NotLoaded(*call.executable);
  for (HostId host : record.hosts) {
    if (!fabric_->outbox().HasHost(host)) return NotLoaded(*call.executable);
  }
  return call;
}

void SessionImpl::Launch(const ExecuteRequest& request, CheckedExecute& call, std::shared_ptr<Run> run) {
  const program::Executable& record = *call.executable->record;
  const int hosts = static_cast<int>(record.hosts.size());
  HostGroup* group = fabric_->groups().Of(record.hosts);
  absl::InlinedVector<ArrayId, 8> args, results;
  for (const ArrayEntry* arg : call.args) args.push_back(arg->record->id());
  auto waiting = std::make_shared<WeakArrays>();
  Record effects;  // a host may complete its shards while another still calls back
  if (hosts > 1 && call.executable->calls_back)
    effects = std::make_shared<buffers::LogicalArray>(ArrayId(), id_, no_spec_, hosts, nullptr);
  for (size_t i = 0; i < call.results.size(); ++i) {
    SpecPtr spec = record.output_spec(static_cast<int>(i));
    auto array = std::make_shared<buffers::LogicalArray>(ArrayId(fabric_->NextId()), id_, spec, hosts, group);
    results.push_back(array->id());
    waiting->push_back(array);
    arrays_.Insert(call.results[i], {std::move(array), std::move(spec), nullptr, false, effects});
  }
  if (effects != nullptr) waiting->push_back(effects);  // after the results, which hosts name by index
  Gangs::Launch launch{id_, record.id, record.physical, record.hosts, args, results, MayDonate(record, request)};
  launch.name = record.name;
  const Gangs::Ticket ticket = fabric_->gangs().Submit(launch);
  dispatch::ExecuteCall plan{id_,
                             &record,
                             args,
                             results,
                             request.launch_id,
                             request.non_donatable,
                             run != nullptr,
                             ticket.grant(),
                             hosts > 1 ? fabric_->NextId() : 0,
                             fabric_->recorder().on() ? ticket.gang.v : 0};
  auto add_op = [&](HostId host) {
    if (run == nullptr) return fabric_->ops().Add(host, waiting, nullptr, ticket.gang, ReportGroups::Join(record.hosts.size()));
    const std::string platform = fabric_->topology().FindHost(host)->platform_name;
    ++run->missing;
    return fabric_->ops().Add(
        host, waiting,
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
    const OpId op = add_op(host);
    if (fabric_->recorder().on()) Trace(op, record.name, ticket.gang);
    return op;
  };
  dispatch::PlanExecute(plan, name_op, fabric_->outbox());
}

// The client considers donated arguments deleted as soon as it has sent the request, whether or not that succeeds.
void SessionImpl::ConsumeDonated(const ExecuteRequest& request, const program::Executable& executable, bool launched) {
  for (int32_t index : executable.donated_inputs) {
    if (index >= static_cast<int32_t>(request.args.size())) continue;
    if (std::find(request.non_donatable.begin(), request.non_donatable.end(), index) != request.non_donatable.end()) continue;
    ArrayEntry* arg = arrays_.Find(request.args[index]);
    if (arg == nullptr || arg->is_deleted()) continue;
    if (launched) arg->record->Donate();
    arrays_.Delete({request.args[index]}).IgnoreError();
  }
}

absl::StatusOr<ExecuteReply> SessionImpl::Execute(const ExecuteRequest& request) {
  absl::StatusOr<std::shared_ptr<Run>> begun = run_results_.Begin(request.status);
  if (!begun.ok()) return Fail(request.results, {}, begun.status());
  const std::shared_ptr<Run> run = *std::move(begun);
  if (!programs_.empty()) {
    if (auto it = programs_.find(request.executable); it != programs_.end()) return RunProgram(it->second, request, run);
  }
  if (publications_->Has(request.executable)) {
    absl::StatusOr<ExecuteReply> reply = publications_->Execute(request);
    if (run != nullptr) run->status = reply.status();
    return reply;
  }
  absl::StatusOr<CheckedExecute> call = CheckExecute(request);
  if (!call.ok()) {
    if (run != nullptr) run->status = call.status();
    // Without handles for the results, the client cannot ask for them.
    if (auto entry = executable_table_.Find(request.executable); entry.ok()) ConsumeDonated(request, *(*entry)->record, false);
    return Fail(request.results, {}, call.status());
  }
  const std::shared_ptr<const program::Executable> record = call->executable->record;
  const bool launch = call->input_error.ok();
  if (launch && call->executable->function != nullptr) {
    functions_.Launch({*record, call->args, call->results, run, request.stream});
  } else if (launch) {
    Launch(request, *call, run);
  } else {
    for (size_t i = 0; i < call->results.size(); ++i)
      InsertError(call->results[i], record->output_spec(static_cast<int>(i)), call->input_error);
    if (run != nullptr) run->status = call->input_error;
  }
  ConsumeDonated(request, *record, launch);
  return ExecuteReply{std::move(call->results), record->output_specs};
}

void SessionImpl::FetchExecuteResult(Handle handle, ResultCallback<RunResult> done) {
  run_results_.Fetch(handle, std::move(done));
}

}  // namespace pw::controller
