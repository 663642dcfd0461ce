// Programs of many nodes. Compiling: the executables are compiled in parallel, like any others; then the IR lowers the program to a
// dataflow graph, which is installed once. Running: a run of this graph, one message to each host, and one record for each result; the
// controller keeps no intermediate values.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/controller/programs/program_errors.h"
#include "pathways/controller/session/publications/session_publications.h"
#include "pathways/controller/session/runs/program_steps.h"
#include "pathways/controller/session/runs/sequential_run.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/ir/compile.h"
#include "pathways/program/compile_options.h"
#include "pathways/program/op_sharding.h"
#include "xla/compile_options.pb.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using InfoPtr = std::shared_ptr<const ExecutableInfo>;
using program::NodeKind;

// Compile options must not name devices (CompileRequest::options), so that the compile cache finds compiled programs again.
std::string WithoutDevices(const std::string& options) {
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromString(options)) return options;  // the compiler reports the error
  return program::CanonicalCompileOptions(std::move(proto));
}

// The client requires every array of a call to have one shard on each of these.
std::vector<DeviceId> ClientDevices(const ProgramEntry& entry) {
  if (entry.arguments.empty()) return {entry.devices.front()};
  const std::vector<DeviceId>& first = entry.arguments[0].spec->sharding.devices();
  for (const auto& argument : entry.arguments) {
    if (argument.spec->sharding.devices().size() != first.size()) return {first[0]};
  }
  return first;
}

InfoPtr MakeInfo(const ProgramEntry& entry, Handle handle) {
  auto info = std::make_shared<ExecutableInfo>();
  info->handle = handle;
  info->name = entry.program().name;
  info->fingerprint = absl::StrCat("program ", entry.id);
  info->devices = ClientDevices(entry);
  for (size_t i = 0; i < entry.arguments.size(); ++i) {
    info->parameters.push_back(ToInfo(*entry.arguments[i].spec));
    if (entry.arguments[i].donated) info->donated_inputs.push_back(static_cast<int32_t>(i));
  }
  for (const buffers::ArraySpec& spec : *entry.typed->result_specs) info->outputs.push_back(ToInfo(spec));
  info->output_specs = *entry.typed->result_specs;
  return info;
}

std::string DeviceList(const buffers::ArraySpec& spec) {
  std::string list;
  const auto& devices = spec.sharding.devices();
  for (size_t i = 0; i < devices.size() && i < 8; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", devices[i].v);
  return devices.size() > 8 ? absl::StrCat(list, ",...") : list;
}

}  // namespace

// A program whose executables are being compiled.
struct SessionImpl::ProgramCompile {
  program::Program program;
  std::vector<Handle> executables;
  std::vector<program::ExecutablePtr> records;
  size_t left = 0;
  absl::Status error;
  int failed_node = 0;
  ResultCallback<InfoPtr> done;
};

absl::Status SessionImpl::CheckProgram(const program::Program& program, std::vector<DeviceId>* devices) const {
  std::set<DeviceId> all;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const program::Node& node = program.nodes[n];
    if (node.kind == NodeKind::kArg) {
      PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), CheckSpec(*node.spec)));
      all.insert(node.spec->sharding.devices().begin(), node.spec->sharding.devices().end());
    } else if (node.kind == NodeKind::kTransfer) {
      const auto& sharding = program.proto->shardings(node.sharding);
      const std::vector<int32_t> numbers(sharding.devices().begin(), sharding.devices().end());
      std::vector<DeviceId> ids;
      for (int32_t number : numbers) ids.push_back(DeviceId(number));
      absl::Status status = devices_.Check(ids);
      if (status.ok() && !sharding.memory_kind().empty())
        status = fabric_->devices().MemoryKind(ids[0], sharding.memory_kind()).status();
      PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), status));
      all.insert(ids.begin(), ids.end());
    }
  }
  for (const auto& executable : program.proto->executables()) {
    for (int32_t number : executable.devices()) all.insert(DeviceId(number));
  }
  if (all.empty()) return absl::InvalidArgumentError(absl::StrCat("program ", program.name, " uses no device"));
  devices->assign(all.begin(), all.end());
  return absl::OkStatus();
}

void SessionImpl::CompileProgram(Bytes bytes, ResultCallback<InfoPtr> done) {
  const std::string_view text = bytes.view();
  absl::StatusOr<program::Program> program = program::ParseProgram({text.data(), text.size()});
  if (program.ok() && program->proto->has_publication())
    return Answer<InfoPtr>(std::move(done), publications_->Add(*program->proto));
  std::vector<DeviceId> devices;
  absl::Status status = program.ok() ? CheckProgram(*program, &devices) : program.status();
  if (!status.ok()) return Answer<InfoPtr>(std::move(done), status);
  auto compile = std::make_shared<ProgramCompile>();
  const std::shared_ptr<const ::pathways::v1::Program> proto = program->proto;
  compile->program = *std::move(program);
  compile->executables.resize(proto->executables_size(), 0);
  compile->records.resize(proto->executables_size());
  compile->left = proto->executables_size() + 1;  // plus one for this function
  compile->done = std::move(done);
  for (int i = 0; i < proto->executables_size(); ++i) {
    const auto& executable = proto->executables(i);
    CompileRequest request;
    request.format = executable.format();
    request.program = Bytes::FromString(std::string(executable.module()));
    request.options = WithoutDevices(executable.options());
    request.num_replicas = executable.num_replicas();
    request.num_partitions = executable.num_partitions();
    for (int32_t device : executable.devices()) request.devices.push_back(DeviceId(device));
    Compile(std::move(request), [this, alive = std::weak_ptr<bool>(alive_), compile, i](absl::StatusOr<InfoPtr> info) {
      if (alive.expired()) info = absl::CancelledError("the session has ended");
      if (info.ok()) compile->executables[i] = (*info)->handle;
      absl::StatusOr<ExecutableEntry*> entry = info.ok() ? executable_table_.Find((*info)->handle) : info.status();
      if (entry.ok() && (*entry)->function != nullptr)
        entry = absl::UnimplementedError("it is a Python function, which a program of many nodes cannot call: call it by itself");
      if (entry.ok()) {
        compile->records[i] = (*entry)->record;
      } else if (compile->error.ok()) {
        compile->error = AtUserOf(compile->program, i, entry.status());
      }
      if (--compile->left == 0) FinishCompile(alive, *compile);
    });
  }
  if (--compile->left > 0) return;
  fabric_->Post([this, alive = std::weak_ptr<bool>(alive_), compile] { FinishCompile(alive, *compile); });
}

void SessionImpl::FinishCompile(const std::weak_ptr<bool>& alive, ProgramCompile& compile) {
  if (alive.expired()) return std::move(compile.done)(absl::CancelledError("the session has ended"));
  absl::StatusOr<InfoPtr> info = absl::UnknownError("");
  if (compile.error.ok())
    info = AddProgram(compile);
  else
    info = compile.error;
  if (!info.ok()) DropExecutables(compile.executables);
  std::move(compile.done)(std::move(info));
}

absl::StatusOr<InfoPtr> SessionImpl::AddProgram(ProgramCompile& compile) {
  for (size_t i = 0; i < compile.records.size(); ++i) {  // a move may have replaced them meanwhile
    if (const ExecutableEntry* entry = executable_table_.FindOrNull(compile.executables[i])) compile.records[i] = entry->record;
  }
  PW_ASSIGN_OR_RETURN(const EntryRef entry, MakeEntry(std::move(compile.program), std::move(compile.records)));
  entry->executables = compile.executables;
  entry->on_gone = [this, alive = std::weak_ptr<bool>(alive_), executables = std::exchange(compile.executables, {})] {
    if (!alive.expired()) DropExecutables(executables);
  };
  const Handle handle = NewHandle();
  entry->info = MakeInfo(*entry, handle);
  programs_.insert({handle, entry});
  return entry->info;
}

// Returns the entry of a program that a client has sent. If no node waits for values, its hosts load it whole.
absl::StatusOr<SessionImpl::EntryRef> SessionImpl::MakeEntry(program::Program program, Executables executables) {
  std::vector<EntryRef> branches;
  if (!program::WaitsForValues(program)) {
    program.branches.clear();  // no node names them
    return MakeStepless(std::move(program), std::move(executables));
  }
  program::CutRoom room;
  for (const program::Program& branch : program.branches) {
    PW_ASSIGN_OR_RETURN(EntryRef entry, steps_->Make(branch, executables, branches, true, room));
    branches.push_back(std::move(entry));
  }
  return steps_->Make(std::move(program), executables, std::move(branches), false, room);
}

absl::StatusOr<SessionImpl::EntryRef> SessionImpl::MakeStepless(program::Program program, Executables executables) {
  auto entry = std::make_shared<ProgramEntry>();
  PW_RETURN_IF_ERROR(CheckProgram(program, &entry->devices));  // again: hosts may have been lost meanwhile
  PW_RETURN_IF_ERROR(devices_.Check(entry->devices));
  PW_ASSIGN_OR_RETURN(entry->portable, ir::ImportProgram(program, executables));
  PW_RETURN_IF_ERROR(LowerProgram(*entry, std::move(program), std::move(executables)));
  entry->id = fabric_->NextId();
  entry->arguments = MakeArguments(entry->program());
  entry->MakeStages(fabric_->gangs().scheduler().options());
  for (const auto& argument : entry->arguments) entry->any_donated = entry->any_donated || argument.donated;
  PW_RETURN_IF_ERROR(LoadProgram(*entry));
  return entry;
}

// Lowers the IR to a dataflow graph, for the current mapping.
absl::Status SessionImpl::LowerProgram(ProgramEntry& entry, program::Program program,
                                       std::vector<program::ExecutablePtr> executables) {
  PW_ASSIGN_OR_RETURN(const program::HostPrograms steps,
                      ir::LowerProgram(entry.portable, program, executables, fabric_->topology()));
  PW_ASSIGN_OR_RETURN(entry.lowered, dispatch::LowerProgram(steps, program, executables, fabric_->topology()));
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>();
  for (const auto& result : steps.results) specs->push_back(*result.spec);
  entry.typed = std::make_shared<program::TypedProgram>(
      program::TypedProgram{std::move(program), std::move(executables), std::move(specs)});
  return absl::OkStatus();
}

// In sequential dispatch, the hosts get the commands of each run one by one.
absl::Status SessionImpl::LoadProgram(ProgramEntry& entry) {
  if (fabric_->sequential_dispatch() || entry.lowered.graph == nullptr) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(entry.graph, fabric_->InstallProgram(id_, entry.lowered.graph));
  return absl::OkStatus();
}

absl::Status SessionImpl::DestructProgram(Handle handle) {
  const std::shared_ptr<ProgramEntry> entry = std::move(programs_.extract(handle).mapped());
  if (entry->steps == nullptr) UnloadProgram(*entry);
  return absl::OkStatus();
}

void SessionImpl::UnloadProgram(const ProgramEntry& entry) {
  for (ExecutableId id : entry.stages->ids()) fabric_->gangs().ForgetExecutable(id);
  if (entry.graph.has_value()) fabric_->UninstallProgram(id_, *entry.graph);
}

void SessionImpl::DropExecutables(const std::vector<Handle>& executables) {
  for (Handle executable : executables) {
    if (executable != 0) DestructExecutable(executable).IgnoreError();
  }
}

absl::Status SessionImpl::CheckProgramArgs(ProgramEntry& entry, absl::Span<const Handle> handles, std::vector<ArrayEntry>* args) {
  if (handles.size() != entry.arguments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", entry.program().name, " takes ", entry.arguments.size(), " arrays, not ", handles.size()));
  }
  PW_ASSIGN_OR_RETURN(*args, LiveEntries(handles));
  for (size_t i = 0; i < args->size(); ++i) {
    ProgramEntry::Argument& wanted = entry.arguments[i];
    const ArrayEntry& arg = (*args)[i];
    if (arg.is_error() || arg.spec == wanted.accepted) continue;
    if (arg.strings != nullptr || !Fits(*arg.spec, *wanted.spec)) {
      return absl::InvalidArgumentError(absl::StrCat("argument ", i, " of program ", entry.program().name, " is ",
                                                     buffers::ToString(*arg.spec), " (", DeviceList(*arg.spec), ") where ",
                                                     buffers::ToString(*wanted.spec), " (", DeviceList(*wanted.spec),
                                                     ") is expected [at ", entry.program().Describe(wanted.node), "]"));
    }
    wanted.accepted = arg.spec;
  }
  if (!entry.any_donated) return absl::OkStatus();
  for (size_t i = 0; i < args->size(); ++i) {
    for (size_t j = 0; entry.arguments[i].donated && j < args->size(); ++j) {
      if (i == j || (*args)[i].record != (*args)[j].record) continue;
      return absl::InvalidArgumentError(absl::StrCat("argument ", i, " of program ", entry.program().name,
                                                     " is donated, but the same array is argument ", j, " too"));
    }
  }
  return absl::OkStatus();
}

// An argument that is an error becomes a poisoned array on its hosts, so that exactly the nodes that depend on it fail.
SessionImpl::Record SessionImpl::PoisonedArgument(const ProgramEntry::Argument& argument, const absl::Status& error) {
  HostGroup* group = fabric_->groups().Of(fabric_->topology(), argument.spec->sharding);
  auto record = std::make_shared<buffers::LogicalArray>(ArrayId(fabric_->NextId()), id_, argument.spec, 0, group);
  for (HostId host : group->hosts()) {
    Command command;
    auto& poison = *command.mutable_poison();
    poison.set_session(id_.v);
    poison.add_arrays(record->id().v);
    poison.mutable_error()->set_code(static_cast<int>(error.code()));
    poison.mutable_error()->set_message(std::string(error.message()));
    fabric_->outbox().Add(host, std::move(command));
  }
  return record;
}

absl::StatusOr<ExecuteReply> SessionImpl::RunProgram(const std::shared_ptr<ProgramEntry>& entry, const ExecuteRequest& request,
                                                     std::shared_ptr<Run> run) {
  const bool effects = entry->program().proto != nullptr && entry->program().proto->effects();
  if (effects && run == nullptr) run = std::make_shared<Run>();
  std::vector<Handle> results = request.results;
  const size_t wanted = entry->lowered.result_hosts.size();
  while (request.results.empty() && results.size() < wanted) results.push_back(NewHandle());
  std::vector<ArrayEntry> args;
  auto check = [&]() -> absl::Status {
    if (results.size() != wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", entry->program().name, " has ", wanted, " results, not ", results.size()));
    }
    PW_RETURN_IF_ERROR(arrays_.CheckNew(results));
    PW_RETURN_IF_ERROR(entry->gone);
    PW_RETURN_IF_ERROR(CheckProgramArgs(*entry, request.args, &args));
    if (entry->steps != nullptr) return devices_.Check(entry->devices);
    for (const dispatch::LoweredHost& part : entry->lowered.hosts) {
      if (fabric_->outbox().HasHost(part.host)) continue;
      PW_RETURN_IF_ERROR(devices_.Check(entry->devices));
      return absl::DataLossError(
          absl::StrCat("program ", entry->program().name, " is not on the hosts that its devices have now: compile it again"));
    }
    return absl::OkStatus();
  };
  const auto calls_back = [this](Handle executable) {
    const ExecutableEntry* found = executable_table_.FindOrNull(executable);
    return found == nullptr || found->calls_back;
  };
  const absl::Status status = check();
  if (status.ok()) {
    if (effects) {
      run->effects = std::make_shared<buffers::LogicalArray>(ArrayId(), id_, no_spec_, 1, nullptr);
      const std::vector<Handle>& inside = entry->executables;
      run->effects_are_nodes = !fabric_->sequential_dispatch() && std::none_of(inside.begin(), inside.end(), calls_back);
    }
    StartProgram(entry, args, results, run);
    if (effects) run->EndEffect();  // all nodes have begun
  } else if (run != nullptr) {
    run->status = status;
  }
  if (effects) run_results_.AddEffects(run);
  for (size_t i = 0; i < request.args.size() && i < entry->arguments.size(); ++i) {
    if (!entry->arguments[i].donated) continue;
    ArrayEntry* arg = arrays_.Find(request.args[i]);
    if (arg == nullptr || arg->deleted) continue;
    if (status.ok() && !arg->is_error() && entry->steps == nullptr) arg->record->Donate();
    arrays_.Delete({request.args[i]}).IgnoreError();
  }
  if (!status.ok()) return Fail(request.results, {}, status);
  return ExecuteReply{std::move(results), entry->typed->result_specs};
}

void SessionImpl::AwaitEffects(StatusCallback done) { run_results_.AwaitEffects(std::move(done)); }

void SessionImpl::StartProgram(const std::shared_ptr<ProgramEntry>& entry, const std::vector<ArrayEntry>& args,
                               absl::Span<const Handle> results, const std::shared_ptr<Run>& run) {
  std::vector<Record> arg_records, result_records;
  for (size_t i = 0; i < args.size(); ++i) {
    arg_records.push_back(args[i].is_error() ? PoisonedArgument(entry->arguments[i], args[i].record->status()) : args[i].record);
  }
  const bool sequential = fabric_->sequential_dispatch();
  for (size_t r = 0; r < results.size(); ++r) {
    const std::vector<HostId>& hosts = entry->lowered.result_hosts[r];
    SpecPtr spec = entry->result_spec(r);
    auto record = std::make_shared<buffers::LogicalArray>(
        ArrayId(fabric_->NextId()), id_, spec, sequential ? 1 : static_cast<int>(hosts.size()), fabric_->groups().Of(hosts));
    result_records.push_back(record);
    arrays_.Insert(results[r], {std::move(record), std::move(spec), nullptr, false, run == nullptr ? nullptr : run->effects});
  }
  if (entry->steps != nullptr) {
    steps_->TakeOver(*entry, arg_records);
    return steps_->Start(entry, arg_records, result_records, run);
  }
  if (!sequential) return SendRuns(entry, arg_records, result_records, run);
  const uint64_t key = fabric_->NextId();
  program_runs_.insert({key, std::make_shared<ProgramRun>(ProgramRun{entry, {result_records.begin(), result_records.end()}, 1})});
  if (run != nullptr) ++run->missing;
  auto done = [this, alive = std::weak_ptr<bool>(alive_), key, run, fabric = fabric_](const absl::Status& status) {
    if (!alive.expired()) program_runs_.erase(key);
    if (run == nullptr) return;
    run->status.Update(status);
    if (--run->missing == 0) run->AnswerWaiter(*fabric);
  };
  auto sequence = std::make_shared<SequentialRun>(fabric_, id_, alive_, entry, std::move(arg_records), std::move(result_records),
                                                  std::move(done));
  sequence->Start();
}

// Parallel dispatch: a run of the program's graph. Every host gets its start, all at once.
void SessionImpl::SendRuns(const std::shared_ptr<const ProgramEntry>& entry, const std::vector<Record>& args,
                           const std::vector<Record>& results, const std::shared_ptr<Run>& run) {
  auto underway = std::make_shared<ProgramRun>();
  underway->entry = entry;
  underway->results.assign(results.begin(), results.end());
  underway->left = entry->graph.has_value() ? static_cast<int>(entry->lowered.graph->hosts().size()) : 0;
  const uint64_t base = fabric_->ReserveIds(entry->lowered.names + 1);
  if (underway->left > 0) program_runs_.insert({base, underway});  // a program without values has no host
  const bool joint = ReportGroups::Join(static_cast<size_t>(underway->left));
  absl::flat_hash_map<HostId, std::string> arguments;
  const std::vector<Gangs::Ticket> stages = SubmitStages(*entry, args, results);
  for (size_t h = 0; h < entry->lowered.hosts.size(); ++h) {
    const dispatch::LoweredHost& part = entry->lowered.hosts[h];
    if (part.commands.empty()) continue;  // has an argument that nothing uses
    auto waiting = std::make_shared<WeakArrays>();
    for (uint32_t r : part.results) waiting->push_back(results[r]);
    if (run != nullptr) ++run->missing;
    const bool computes = stages.size() == 1 && entry->stages->planned()[0].executes[h] > 0;
    const gang::GangId only = computes ? stages[0].gang : gang::GangId();  // with several stages, each has an op of its own
    const OpId op = fabric_->ops().Add(
        part.host, std::move(waiting),
        [this, alive = std::weak_ptr<bool>(alive_), base, underway, run, fabric = fabric_](const absl::Status& status,
                                                                                           std::optional<double>) {
          if (--underway->left == 0 && !alive.expired()) program_runs_.erase(base);
          if (run == nullptr) return;
          run->status.Update(status);
          if (--run->missing == 0) run->AnswerWaiter(*fabric);
        },
        only, joint);
    ::pathways::v1::ProgramRun message;
    message.set_op(op.v);
    message.set_session(id_.v);
    message.set_base(base);
    AddStages(*entry, h, stages, &message);
    for (uint32_t k : part.args) message.add_args(args[k]->id().v);
    for (uint32_t k : part.results) message.add_results(results[k]->id().v);
    arguments[part.host] = message.SerializeAsString();
  }
  if (!arguments.empty()) fabric_->StartProgram(*entry->graph, std::move(arguments));
}

// Each stage is a gang that follows the previous one. The results are due from the last.
SessionImpl::Tickets SessionImpl::SubmitStages(const ProgramEntry& entry, const std::vector<Record>& args,
                                               const std::vector<Record>& results) {
  Gangs& gangs = fabric_->gangs();
  const std::vector<ProgramStage>& stages =
      entry.stages->Plan({[&](ExecutableId id) {
                            // This is the prediction for unknown executables.
                            const int64_t ns = gangs.scheduler().PredictCost(id);
                            return ns == gangs.scheduler().options().default_cost_ns ? -1 : ns;
                          },
                          [&] { return ExecutableId(fabric_->NextId()); }});
  std::vector<Gangs::Ticket> tickets;
  std::vector<ArrayId> arg_ids, result_ids;
  for (const Record& arg : args) arg_ids.push_back(arg->id());
  for (const Record& result : results) result_ids.push_back(result->id());
  for (const ProgramStage& stage : stages) {
    Gangs::Launch launch{id_, stage.id, stage.devices, stage.hosts, {}, {}, entry.any_donated};
    launch.args = arg_ids;
    launch.name = entry.program().name;
    if (tickets.size() + 1 == stages.size()) launch.results = result_ids;
    if (!tickets.empty()) launch.after = tickets.back().gang;
    tickets.push_back(gangs.Submit(launch));
  }
  if (!stages.empty()) return tickets;
  for (ArrayId result : result_ids) {  // there are only copies
    for (ArrayId arg : arg_ids) gangs.Derive(id_, result, {arg});
  }
  return tickets;
}

// Adds the stages to the message for host `h`. With several stages, each has an op of its own, which completes its gang.
void SessionImpl::AddStages(const ProgramEntry& entry, size_t h, const Tickets& tickets, ::pathways::v1::ProgramRun* message) {
  const HostId host = entry.lowered.hosts[h].host;
  const bool traced = fabric_->recorder().on();
  const std::vector<ProgramStage>& stages = entry.stages->planned();
  for (size_t s = 0; s < tickets.size(); ++s) {
    const bool executes = stages[s].executes[h] > 0;
    uint64_t op = message->op();
    if (tickets.size() > 1) {
      auto& stage = *message->add_stages();
      op = executes ? fabric_->ops().Add(host, nullptr, nullptr, tickets[s].gang, ReportGroups::Join(stages[s].hosts.size())).v
                    : 0;
      stage.set_op(op);
      stage.set_grant(tickets[s].grant());
      stage.set_executes(stages[s].executes[h]);
      if (traced) stage.set_gang(tickets[s].gang.v);
    } else {
      message->set_grant(tickets[s].grant());
      if (traced) message->set_gang(tickets[s].gang.v);
    }
    if (traced && executes) Trace(OpId(op), entry.program().name, tickets[s].gang);
  }
  if (traced && tickets.size() != 1) Trace(OpId(message->op()), entry.program().name);
}

// Pending results on these devices get the error, with the node that would have made them.
void SessionImpl::PoisonProgramResults(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  for (uint64_t base : SortedKeys(program_runs_)) {
    const std::shared_ptr<ProgramRun> run = program_runs_.at(base);
    const ProgramEntry& entry = *run->entry;
    for (size_t r = 0; r < run->results.size(); ++r) {
      const buffers::LogicalArray::Ref result = run->results[r].lock();
      if (result == nullptr || result->settled()) continue;
      result->OnDevicesLost(lost, entry.program().At(entry.lowered.result_makers[r], error));
    }
  }
}

}  // namespace pw::controller
