// Executables. Hosts compile in the background; their answers complete the record.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/session_functions.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/controller/session/session_publications.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;

// The custom call by which programs call the client's Python functions. The name appears verbatim in a program's bytes, text or bytecode.
constexpr std::string_view kHostCallbackTarget = "pathways_host_callback";

ValueInfo ToInfo(const program::Value& value) {
  return {value.dtype, value.shard_dims, value.op_sharding, value.layout, value.memory_kind};
}

// Merges the answer of one host into the answer of all: an error of any host counts. An error that says that the host cannot read
// the program takes precedence, because other errors may follow from it.
void Take(absl::StatusOr<::pathways::v1::Compiled> compiled, absl::StatusOr<::pathways::v1::Compiled>& answer) {
  absl::Status status = compiled.ok() ? session::StatusFrom(compiled->status()) : compiled.status();
  if (!status.ok() && compiled.ok() && compiled->newer_than_runtime()) status.SetPayload(kNewerThanRuntime, absl::Cord());
  if (answer.status().GetPayload(kNewerThanRuntime).has_value()) return;
  if (!status.ok()) {
    answer = status;
  } else if (answer.ok()) {
    answer = std::move(compiled);
  }
}

}  // namespace

std::shared_ptr<const ExecutableInfo> MakeInfo(const program::Executable& record, Handle handle) {
  auto info = std::make_shared<ExecutableInfo>();
  info->handle = handle;
  info->name = record.name;
  info->fingerprint = record.fingerprint;
  info->devices = record.devices;
  for (const auto& value : record.parameters) info->parameters.push_back(ToInfo(value));
  for (const auto& value : record.outputs) info->outputs.push_back(ToInfo(value));
  info->output_specs = *record.output_specs;
  info->donated_inputs = record.donated_inputs;
  info->memory_stats = record.memory_stats;
  info->code_bytes = record.code_bytes;
  return info;
}

void SessionImpl::DropRecord(const program::Executable& record) {
  fabric_->gangs().ForgetExecutable(record.id);
  ::pathways::v1::CleanUp what;
  what.add_executables(record.id.v);
  fabric_->clean_ups().Add(id_, record.hosts, std::move(what));
}

// A program that is being compiled by its hosts.
struct SessionImpl::PendingCompile {
  program::Executable record;
  std::shared_ptr<const CompileRequest> source;
  bool calls_back = false;
  absl::Time began;
  bool in_part = false;  // some of its devices are lost, and no host compiles for them
  size_t left = 0;
  absl::StatusOr<::pathways::v1::Compiled> answer = ::pathways::v1::Compiled();  // of any host, or the last error
  ResultCallback<std::shared_ptr<const ExecutableInfo>> done;
};

absl::StatusOr<program::Executable> SessionImpl::CheckCompile(CompileRequest& request) const {
  program::Executable record;
  record.owner = id_;
  record.num_replicas = request.num_replicas;
  record.num_partitions = request.num_partitions;
  const resource::Topology& topology = fabric_->topology();
  const int64_t wanted = int64_t{request.num_replicas} * request.num_partitions;
  if (request.num_replicas < 1 || request.num_partitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a program has at least 1 replica and 1 partition, not ", request.num_replicas,
                                                   " and ", request.num_partitions));
  }
  if (request.format.size() > 64) return absl::InvalidArgumentError("the name of a program's format has more than 64 characters");
  if (request.devices.empty()) {
    request.devices = topology.devices();
    if (static_cast<int64_t>(request.devices.size()) > wanted) request.devices.resize(wanted);
  }
  if (static_cast<int64_t>(request.devices.size()) != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("a program of ", request.num_replicas, " replicas and ",
                                                   request.num_partitions, " partitions needs ", wanted,
                                                   " devices, but there are ", request.devices.size()));
  }
  const absl::Status present = devices_.CheckPresent(request.devices);
  std::vector<DeviceId> on = request.devices;
  if (absl::IsDataLoss(present)) {
    PW_ASSIGN_OR_RETURN(on, fabric_->devices().StandInsFor(request.devices));
  } else if (!present.ok()) {
    return present;
  }
  std::vector<DeviceId> there = on;
  std::erase_if(there, [&](DeviceId device) { return topology.FindDevice(device) == nullptr; });
  PW_RETURN_IF_ERROR(devices_.CheckApart(there));
  PW_ASSIGN_OR_RETURN(record.hosts, dispatch::HostsOfComputation(topology, there));
  const bool alone = record.hosts.size() == 1 && there.size() == on.size();
  for (HostId host : record.hosts) {
    if (alone || !fabric_->process_address(host).empty()) continue;
    return absl::UnimplementedError(absl::StrCat(
        "one computation over the devices of several hosts: the device plugin of ", topology.Describe(*topology.FindHost(host)),
        " cannot take part. Use a mesh over the devices of one host (attributes `island` and `host` of a device say where it "
        "is), one "
        "mesh for each host, and jax.device_put between their arrays, which goes directly from host to host."));
  }
  if (static_cast<int64_t>(executables_.size()) >= fabric_->limits().handles) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", executables_.size(), " programs, which is the limit: drop some (jax.clear_caches())"));
  }
  record.id = ExecutableId(fabric_->NextId());
  record.devices = std::move(request.devices);
  record.physical = devices_.PhysicalOf(on);
  return record;
}

void SessionImpl::Compile(CompileRequest request, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) {
  if (request.format == session::kHostFunctionFormat) return functions_->Compile(std::move(request), std::move(done));
  absl::StatusOr<program::Executable> record = CheckCompile(request);
  if (!record.ok()) return Answer<std::shared_ptr<const ExecutableInfo>>(std::move(done), record.status());
  Command command;
  auto& compile = *command.mutable_compile();
  compile.set_executable(record->id.v);
  compile.set_session(id_.v);
  compile.set_format(request.format);
  compile.set_program_bytes(request.program.size());
  compile.set_options_bytes(request.options.size());
  compile.set_num_replicas(request.num_replicas);
  compile.set_num_partitions(request.num_partitions);
  for (DeviceId device : record->physical) compile.add_local_devices(fabric_->topology().FindNowOrFormer(device)->local_ordinal);
  auto source = std::make_shared<CompileRequest>(request);
  source->devices = record->devices;
  const bool calls_back = request.program.view().find(kHostCallbackTarget) != std::string_view::npos;
  compile.set_host_callbacks(calls_back);
  if (calls_back) lanes_.OpenForCalls(record->hosts);
  const bool in_part = !fabric_->devices().Check(record->physical).ok();
  if (in_part || record->hosts.size() > 1) NameHosts(*record, compile);
  const uint64_t id = record->id.v;
  auto pending = std::make_shared<PendingCompile>();
  pending->record = *std::move(record);
  pending->began = fabric_->Now();
  pending->left = pending->record.hosts.size();
  pending->source = std::move(source);
  pending->calls_back = calls_back;
  pending->in_part = in_part;
  pending->done = std::move(done);
  const Bytes options = Bytes::FromString(std::move(request.options));
  for (HostId host : pending->record.hosts) {
    fabric_->compiles().Add(id, host, id_, [this, pending](absl::StatusOr<::pathways::v1::Compiled> compiled) {
      Take(std::move(compiled), pending->answer);
      if (--pending->left == 0) OnCompiled(*pending);
    });
    fabric_->outbox().Add(host, command, {request.program, options});
  }
}

// Names the host of each device, and the addresses at which the hosts' runtimes meet, for a program over several hosts. A lost
// host gets an address that leads nowhere.
void SessionImpl::NameHosts(const program::Executable& record, ::pathways::v1::Compile& compile) const {
  std::set<HostId> hosts;
  for (DeviceId device : record.physical) {
    const HostId host = fabric_->topology().FindNowOrFormer(device)->host;
    hosts.insert(host);
    compile.add_hosts(host.v);
  }
  for (HostId host : hosts) {
    auto& process = *compile.add_processes();
    process.set_host(host.v);
    process.set_address(fabric_->outbox().HasHost(host) ? fabric_->process_address(host) : absl::StrCat("lost-host-", host.v));
  }
}

void SessionImpl::OnCompiled(PendingCompile& compile) {
  using Info = std::shared_ptr<const ExecutableInfo>;
  program::Executable& record = compile.record;
  fabric_->CountCompile(id_, fabric_->Now() - compile.began);
  if (!compile.answer.ok()) {
    if (record.hosts.size() > 1) DropRecord(record);  // some hosts may have it
    return Answer<Info>(std::move(compile.done), compile.answer.status());
  }
  if (compile.source->translated) fabric_->CountTranslated();
  const bool elsewhere = compile.in_part || devices_.PhysicalOf(record.devices) != record.physical;
  absl::Status unloaded;
  if (elsewhere) {
    DropRecord(record);
    unloaded = devices_.CheckPresent(record.devices);
    // The slice of the devices has moved meanwhile, or a host has taken their seat.
    if (unloaded.ok()) return Compile(*compile.source, std::move(compile.done));
    record.physical = record.devices;  // they are lost, and stand-ins have compiled it
    record.hosts.clear();
  }
  absl::StatusOr<std::shared_ptr<const program::Executable>> complete = program::CompleteExecutable(record, *compile.answer);
  if (std::any_of(record.devices.begin(), record.devices.end(), resource::IsVirtual)) {  // their slice may have been released
    if (absl::Status status = devices_.Check(record.devices); !status.ok()) complete = status;
  }
  if (!complete.ok()) {
    DropRecord(record);
    return Answer<Info>(std::move(compile.done), complete.status());
  }
  const Handle handle = NewHandle();
  ExecutableEntry entry{*std::move(complete), nullptr, {}, absl::OkStatus(), std::move(compile.source), compile.calls_back,
                        std::move(unloaded)};
  entry.info = MakeInfo(*entry.record, handle);
  entry.accepted.resize(entry.record->parameters.size());
  Info info = entry.info;
  executables_.insert({handle, std::move(entry)});
  Answer<Info>(std::move(compile.done), std::move(info));
}

absl::StatusOr<ExecutableEntry*> SessionImpl::FindExecutable(Handle handle) {
  auto it = executables_.find(handle);
  if (it == executables_.end()) return UnknownHandle("executable", handle);
  return &it->second;
}

absl::StatusOr<std::shared_ptr<const ExecutableInfo>> SessionImpl::Info(Handle executable) {
  if (auto it = programs_.find(executable); it != programs_.end()) return it->second->info;
  if (publications_->Has(executable)) return publications_->InfoOf(executable);
  PW_ASSIGN_OR_RETURN(const ExecutableEntry* entry, FindExecutable(executable));
  return entry->info;
}

absl::Status SessionImpl::DestructExecutable(Handle executable) {
  if (programs_.contains(executable)) return DestructProgram(executable);
  if (publications_->Has(executable)) return publications_->Drop(executable), absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const ExecutableEntry* entry, FindExecutable(executable));
  if (entry->function != nullptr)
    functions_->Drop(entry->record);
  else
    DropRecord(*entry->record);
  executables_.erase(executable);
  return absl::OkStatus();
}

void SessionImpl::Describe(Handle executable, ::pathways::v1::Describe::What what,
                           ResultCallback<::pathways::v1::Described> done) {
  absl::StatusOr<ExecutableEntry*> entry = FindExecutable(executable);
  absl::Status status = entry.status();
  if (programs_.contains(executable))
    status = absl::UnimplementedError(
        "a program of many nodes has no description of its own: ask for those of its nodes' executables");
  if (status.ok() && (*entry)->function != nullptr)
    status = absl::UnimplementedError("a Python function has no compiled text and no costs");
  if (status.ok()) status = devices_.Check((*entry)->record->devices);
  if (status.ok() && !(*entry)->unloaded.ok()) status = (*entry)->unloaded;
  if (!status.ok()) return Answer<::pathways::v1::Described>(std::move(done), status);
  const program::Executable& record = *(*entry)->record;
  Command command;
  auto& describe = *command.mutable_describe();
  describe.set_query(fabric_->NextId());
  describe.set_executable(record.id.v);
  describe.set_what(what);
  fabric_->descriptions().Add(describe.query(), record.hosts.front(), id_,
                              [this, done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
                                if (described.ok() && described->status().code() != 0)
                                  described = session::StatusFrom(described->status());
                                Answer<::pathways::v1::Described>(std::move(done), std::move(described));
                              });
  fabric_->outbox().Add(record.hosts.front(), std::move(command));
}

void SessionImpl::GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) {
  Describe(executable, ::pathways::v1::Describe::COST_ANALYSIS,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             CostAnalysis analysis;
             for (const auto& [name, number] : described->numbers()) analysis.numbers[name] = number;
             std::move(done)(std::move(analysis));
           });
}

void SessionImpl::GetProgramText(Handle executable, ResultCallback<std::string> done) {
  Describe(executable, ::pathways::v1::Describe::PROGRAM_TEXT,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             std::move(done)(described->text());
           });
}

void SessionImpl::GetProgramModule(Handle executable, ResultCallback<std::string> done) {
  Describe(executable, ::pathways::v1::Describe::PROGRAM_MODULE,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             std::move(done)(std::move(*described->mutable_module()));
           });
}

}  // namespace pw::controller
