#include "pathways/controller/session/runs/session_programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/programs/program_errors.h"
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

// Returns the first node that calls a Python function, in the program or its branches; null if there is none.
const program::Node* CallerOf(const program::Program& program, int executable) {
  for (const program::Node& node : program.nodes) {
    if (node.kind == NodeKind::kHostCompute && node.executable == executable) return &node;
  }
  for (const program::Program& branch : program.branches) {
    if (const program::Node* node = CallerOf(branch, executable); node != nullptr) return node;
  }
  return nullptr;
}

// Returns, for each branch, whether it is a turn of a loop.
std::vector<bool> FindTurns(const program::Program& program) {
  std::vector<bool> turns(program.branches.size());
  const auto add = [&](const program::Program& of) {
    for (const program::Node& node : of.nodes) {
      if (node.kind == NodeKind::kWhile) turns[static_cast<size_t>(node.branches[0])] = true;
    }
  };
  add(program);
  for (const program::Program& branch : program.branches) add(branch);
  return turns;
}

// Returns the request to load a Python function on its hosts. Its types are those of the nodes that call it (PR-3).
absl::StatusOr<CompileRequest> FunctionRequest(const program::Program& program, int number) {
  const ::pathways::v1::ProgramExecutable& executable = program.proto->executables(number);
  const program::Node* const node = CallerOf(program, number);
  if (node == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("executable ", number, " of program ", program.name, " is a Python function that no node calls"));
  PW_RETURN_IF_ERROR(session::CheckHostFunctionSize(executable.module().size()));
  session::HostFunction function;
  function.name = node->function;
  function.text = std::string(executable.module());
  for (int32_t device : executable.devices()) function.devices.push_back(DeviceId(device));
  for (const auto& spec : node->takes) function.inputs.push_back(*spec);
  for (const auto& spec : node->outputs) function.outputs.push_back(*spec);
  CompileRequest request;
  request.format = session::kHostFunctionFormat;
  request.program = Bytes::FromString(session::SerializeHostFunction(std::move(function)));
  return request;
}

// Returns the request to compile an executable of the program.
absl::StatusOr<CompileRequest> RequestFor(const program::Program& program, int number) {
  const ::pathways::v1::ProgramExecutable& executable = program.proto->executables(number);
  if (executable.format() == session::kHostFunctionFormat) return FunctionRequest(program, number);
  CompileRequest request;
  request.format = executable.format();
  request.program = Bytes::FromString(std::string(executable.module()));
  request.options = WithoutDevices(executable.options());
  request.num_replicas = executable.num_replicas();
  request.num_partitions = executable.num_partitions();
  for (int32_t device : executable.devices()) request.devices.push_back(DeviceId(device));
  return request;
}

std::string DeviceList(const buffers::ArraySpec& spec) {
  std::string list;
  const auto& devices = spec.sharding.devices();
  for (size_t i = 0; i < devices.size() && i < 8; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", devices[i].v);
  return devices.size() > 8 ? absl::StrCat(list, ",...") : list;
}

}  // namespace

// A program whose executables are being compiled.
struct SessionPrograms::Compilation {
  program::Program program;
  std::vector<Handle> executables;
  std::vector<program::ExecutablePtr> records;
  size_t left = 0;
  absl::Status error;
  ResultCallback<InfoPtr> done;  // called once, then null

  // Ends it after the session.
  void Abandon() {
    if (done != nullptr) std::exchange(done, nullptr)(absl::CancelledError("the session has ended"));
  }
};

SessionPrograms::SessionPrograms(SessionContext* context, PendingReads* reads, SessionLanes* lanes,
                                 ExecutableTable* executable_table, SessionFunctions* functions, SessionExecutables* executables,
                                 RunResults* run_results)
    : context_(context),
      fabric_(context->fabric()),
      executable_table_(executable_table),
      executables_(executables),
      run_results_(run_results),
      graphs_(context),
      steps_maker_(context, lanes, &graphs_),
      steps_(context, reads, lanes, functions, &graphs_) {}

void SessionPrograms::Compile(program::Program program, ResultCallback<InfoPtr> done) {
  std::vector<DeviceId> devices;
  if (absl::Status status = graphs_.Check(program, &devices); !status.ok())
    return context_->Answer<InfoPtr>(std::move(done), status);
  auto compile = std::make_shared<Compilation>();
  const std::shared_ptr<const ::pathways::v1::Program> proto = program.proto;
  compile->program = std::move(program);
  compile->executables.resize(proto->executables_size(), 0);
  compile->records.resize(proto->executables_size());
  compile->left = proto->executables_size() + 1;  // plus one for this function
  compile->done = std::move(done);
  for (int i = 0; i < proto->executables_size(); ++i) {
    absl::StatusOr<CompileRequest> request = RequestFor(compile->program, i);
    if (!request.ok()) {
      OnCompiled(*compile, i, request.status());
      continue;
    }
    executables_->Compile(*std::move(request), [this, alive = context_->alive(), compile, i](absl::StatusOr<InfoPtr> info) {
      if (alive.expired()) return compile->Abandon();
      OnCompiled(*compile, i, info);
      if (compile->left == 0) FinishCompile(*compile);
    });
  }
  if (--compile->left > 0) return;
  fabric_->Post([this, alive = context_->alive(), compile] { alive.expired() ? compile->Abandon() : FinishCompile(*compile); });
}

void SessionPrograms::OnCompiled(Compilation& compile, int executable, const absl::StatusOr<Info>& info) {
  --compile.left;
  if (info.ok()) compile.executables[executable] = (*info)->handle;
  const absl::StatusOr<ExecutableEntry*> entry = info.ok() ? executable_table_->Find((*info)->handle) : info.status();
  if (entry.ok()) {
    compile.records[executable] = (*entry)->record;
  } else if (compile.error.ok()) {
    compile.error = AtUserOf(compile.program, executable, entry.status());
  }
}

void SessionPrograms::FinishCompile(Compilation& compile) {
  absl::StatusOr<InfoPtr> info = absl::UnknownError("");
  if (compile.error.ok())
    info = Add(compile);
  else
    info = compile.error;
  if (!info.ok()) DropExecutables(compile.executables);
  std::move(compile.done)(std::move(info));
}

absl::StatusOr<InfoPtr> SessionPrograms::Add(Compilation& compile) {
  for (size_t i = 0; i < compile.records.size(); ++i) {  // a move may have replaced them meanwhile
    if (const ExecutableEntry* entry = executable_table_->FindOrNull(compile.executables[i])) compile.records[i] = entry->record;
  }
  PW_ASSIGN_OR_RETURN(const EntryRef entry, MakeEntry(std::move(compile.program), std::move(compile.records)));
  entry->executables = compile.executables;
  entry->on_gone = [this, alive = context_->alive(), executables = std::exchange(compile.executables, {})] {
    if (!alive.expired()) DropExecutables(executables);
  };
  const Handle handle = context_->arrays().NewHandle();
  entry->info = MakeInfo(*entry, handle);
  programs_.insert({handle, entry});
  return entry->info;
}

// Returns the entry of a program that a client has sent. If no node waits for values, its hosts load it whole.
absl::StatusOr<SessionPrograms::EntryRef> SessionPrograms::MakeEntry(program::Program program, Executables executables) {
  std::vector<EntryRef> branches;
  if (!program::WaitsForValues(program)) {
    program.branches.clear();  // no node names them
    return graphs_.Make(std::move(program), std::move(executables));
  }
  program::CutRoom room;
  const std::vector<bool> turns = FindTurns(program);
  for (const program::Program& branch : program.branches) {
    absl::StatusOr<EntryRef> entry = turns[branches.size()] ? steps_maker_.MakeTurn(branch, executables, room)
                                                            : steps_maker_.Make(branch, executables, branches, true, room);
    PW_RETURN_IF_ERROR(entry.status());
    branches.push_back(*std::move(entry));
  }
  return steps_maker_.Make(std::move(program), executables, std::move(branches), false, room);
}

void SessionPrograms::Destruct(Handle handle) {
  const EntryRef entry = std::move(programs_.extract(handle).mapped());
  if (entry->steps == nullptr) graphs_.Unload(*entry);
}

void SessionPrograms::DropExecutables(const std::vector<Handle>& executables) {
  for (Handle executable : executables) {
    if (executable != 0) executables_->Destruct(executable).IgnoreError();
  }
}

absl::Status SessionPrograms::CheckArgs(ProgramEntry& entry, absl::Span<const Handle> handles, std::vector<ArrayEntry>* args) {
  if (handles.size() != entry.arguments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", entry.program().name, " takes ", entry.arguments.size(), " arrays, not ", handles.size()));
  }
  PW_ASSIGN_OR_RETURN(*args, context_->LiveEntries(handles));
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
SessionPrograms::Record SessionPrograms::PoisonedArgument(ArrayId id, const ProgramEntry::Argument& argument,
                                                          const absl::Status& error) {
  HostGroup* group = fabric_->groups().Of(fabric_->topology(), argument.spec->sharding);
  auto record = std::make_shared<buffers::LogicalArray>(id, context_->id(), argument.spec, 0, group);
  for (HostId host : group->hosts()) {
    Command command;
    auto& poison = *command.mutable_poison();
    poison.set_session(context_->id().v);
    poison.add_arrays(record->id().v);
    poison.mutable_error()->set_code(static_cast<int>(error.code()));
    poison.mutable_error()->set_message(std::string(error.message()));
    fabric_->outbox().Add(host, std::move(command));
  }
  return record;
}

absl::Status SessionPrograms::CheckCall(ProgramEntry& entry, const ExecuteRequest& request, const std::vector<Handle>& results,
                                        std::vector<ArrayEntry>* args) {
  const size_t wanted = entry.lowered.result_hosts.size();
  if (results.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("program ", entry.program().name, " has ", wanted, " results, not ", results.size()));
  }
  PW_RETURN_IF_ERROR(context_->arrays().CheckNew(results));
  PW_RETURN_IF_ERROR(entry.gone);
  PW_RETURN_IF_ERROR(context_->refusal());
  PW_RETURN_IF_ERROR(CheckArgs(entry, request.args, args));
  NameNeed need = entry.need;
  need += {results.size() + args->size(), 0};
  PW_RETURN_IF_ERROR(context_->names().now().CheckRoom(need));
  return entry.steps != nullptr ? context_->devices().Check(entry.devices) : graphs_.CheckLoaded(entry);
}

absl::StatusOr<ExecuteReply> SessionPrograms::Execute(const ExecuteRequest& request, std::shared_ptr<ExecuteRun> run) {
  const EntryRef entry = programs_.at(request.executable);
  const bool effects = entry->program().proto != nullptr && entry->program().proto->effects();
  if (effects && run == nullptr) run = std::make_shared<ExecuteRun>();
  std::vector<Handle> results = request.results;
  const size_t wanted = entry->lowered.result_hosts.size();
  while (request.results.empty() && results.size() < wanted) results.push_back(context_->arrays().NewHandle());
  std::vector<ArrayEntry> args;
  const auto calls_back = [this](Handle executable) {
    const ExecutableEntry* found = executable_table_->FindOrNull(executable);
    return found == nullptr || found->calls_back;
  };
  const absl::Status status = CheckCall(*entry, request, results, &args);
  if (status.ok()) {
    if (effects) {
      run->effects = std::make_shared<buffers::LogicalArray>(ArrayId(), context_->id(), context_->no_spec(), 1, nullptr);
      const std::vector<Handle>& inside = entry->executables;
      run->effects_are_nodes = !fabric_->sequential_dispatch() && std::none_of(inside.begin(), inside.end(), calls_back);
    }
    Start(entry, args, results, run, request.stream);
    if (effects) run->EndEffect();  // all nodes have begun
  } else if (run != nullptr) {
    run->status = status;
  }
  if (effects) run_results_->AddEffects(run);
  for (size_t i = 0; i < request.args.size() && i < entry->arguments.size(); ++i) {
    if (!entry->arguments[i].donated) continue;
    ArrayEntry* arg = context_->arrays().Find(request.args[i]);
    if (arg == nullptr || arg->deleted) continue;
    if (status.ok() && !arg->is_error() && entry->steps == nullptr) arg->record->Donate();
    context_->arrays().Delete({request.args[i]}).IgnoreError();
  }
  if (!status.ok()) return context_->Fail(request.results, {}, status);
  return ExecuteReply{std::move(results), entry->typed->result_specs};
}

void SessionPrograms::Start(const EntryRef& entry, const std::vector<ArrayEntry>& args, absl::Span<const Handle> results,
                            const std::shared_ptr<ExecuteRun>& run, uint64_t stream) {
  std::vector<Record> arg_records, result_records;
  std::vector<ArrayId> result_ids;
  for (size_t r = 0; r < results.size(); ++r) result_ids.push_back(context_->NewArrayId());
  // Whether an argument is an error yet changes no other name.
  const uint64_t poisoned = args.empty() ? 0 : context_->names().now().ReserveIds(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const ArrayId id(poisoned + i * RequestName::kStep);
    const ArrayEntry& arg = args[i];
    arg_records.push_back(arg.is_error() ? PoisonedArgument(id, entry->arguments[i], arg.record->status()) : arg.record);
  }
  const bool sequential = fabric_->sequential_dispatch();
  for (size_t r = 0; r < results.size(); ++r) {
    const std::vector<HostId>& hosts = entry->lowered.result_hosts[r];
    SessionContext::SpecPtr spec = entry->result_spec(r);
    auto record = std::make_shared<buffers::LogicalArray>(
        result_ids[r], context_->id(), spec, sequential ? 1 : static_cast<int>(hosts.size()), fabric_->groups().Of(hosts));
    result_records.push_back(record);
    context_->arrays().Insert(results[r],
                              {std::move(record), std::move(spec), nullptr, false, run == nullptr ? nullptr : run->effects});
  }
  NameScope names = context_->names().now().Take(entry->need);
  if (entry->steps != nullptr) {
    steps_.TakeOver(*entry, arg_records);
    return steps_.Start(entry, std::move(names), arg_records, result_records, run, stream);
  }
  graphs_.Start(entry, std::move(names), std::move(arg_records), std::move(result_records), run);
}

void SessionPrograms::MakeAnew(absl::FunctionRef<bool(const ProgramEntry&)> concerned,
                               const std::shared_ptr<void>& old_executables) {
  for (Handle handle : SortedKeys(programs_)) {
    const ProgramEntry& entry = *programs_.at(handle);
    if (!entry.gone.ok() || !concerned(entry)) continue;
    if (absl::Status status = MakeOneAnew(handle, old_executables); !status.ok()) programs_.at(handle)->gone = status;
  }
}

absl::Status SessionPrograms::MakeOneAnew(Handle handle, const std::shared_ptr<void>& old_executables) {
  const std::shared_ptr<ProgramEntry> old = programs_.at(handle);
  std::vector<program::ExecutablePtr> records;
  for (Handle executable : old->executables) {
    const ExecutableEntry* entry = executable_table_->FindOrNull(executable);
    if (entry == nullptr)  // a client may guess and drop handles that it was never given
      return absl::FailedPreconditionError(absl::StrCat("a compiled function of program ", old->program().name, " was dropped"));
    records.push_back(entry->record);
  }
  if (old->steps != nullptr) {  // runs in flight keep the old entry
    PW_ASSIGN_OR_RETURN(EntryRef anew, MakeEntry(old->program(), std::move(records)));
    anew->executables = old->executables;
    anew->info = old->info;
    anew->on_gone = std::exchange(old->on_gone, [old_executables] {});
    programs_[handle] = std::move(anew);
    return absl::OkStatus();
  }
  PW_ASSIGN_OR_RETURN(EntryRef anew, graphs_.MakeAnew(*old, std::move(records)));
  anew->executables = old->executables;
  anew->info = old->info;
  anew->on_gone = std::exchange(old->on_gone, [old_executables] {});
  Destruct(handle);
  programs_.insert({handle, std::move(anew)});
  return absl::OkStatus();
}

void SessionPrograms::OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error) {
  for (auto& [handle, entry] : programs_) {
    const std::vector<DeviceId>& of = entry->devices;
    if (std::any_of(of.begin(), of.end(), [&](DeviceId device) { return devices.contains(device); }))
      entry->gone.Update(AtUserOf(entry->program(), devices, error));
  }
  OnDevicesLost(devices, error);
}

}  // namespace pw::controller
