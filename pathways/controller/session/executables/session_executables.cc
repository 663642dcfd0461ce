#include "pathways/controller/session/executables/session_executables.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;

// The custom call by which programs call the client's Python functions. The name appears verbatim in a program's bytes, text or bytecode.
constexpr std::string_view kHostCallbackTarget = "pathways_host_callback";

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

// Returns the record of an executable that was compiled under scratch ids, with the virtual devices instead.
std::shared_ptr<const program::Executable> Renamed(const program::Executable& twin, const program::Executable& original) {
  absl::flat_hash_map<DeviceId, DeviceId> back;
  for (size_t i = 0; i < twin.devices.size(); ++i) back[twin.devices[i]] = original.devices[i];
  auto record = std::make_shared<program::Executable>(twin);
  record->devices = original.devices;
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>();
  for (const auto& spec : *twin.output_specs) specs->push_back(OnDevices(spec, [&](DeviceId device) { return back.at(device); }));
  record->output_specs = std::move(specs);
  return record;
}

}  // namespace

// A program that is being compiled by its hosts.
struct SessionExecutables::PendingCompile {
  program::Executable record;
  std::shared_ptr<const CompileRequest> source;
  bool calls_back = false;
  absl::Time began;
  bool in_part = false;  // some of its devices are lost, and no host compiles for them
  size_t left = 0;
  absl::StatusOr<::pathways::v1::Compiled> answer = ::pathways::v1::Compiled();  // of any host, or the last error
  ResultCallback<Info> done;
};

absl::StatusOr<program::Executable> SessionExecutables::CheckCompile(CompileRequest& request) const {
  program::Executable record;
  record.owner = context_->id();
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
  const absl::Status present = context_->devices().CheckPresent(request.devices);
  std::vector<DeviceId> on = request.devices;
  if (absl::IsDataLoss(present)) {
    PW_ASSIGN_OR_RETURN(on, fabric_->devices().StandInsFor(request.devices));
  } else if (!present.ok()) {
    return present;
  }
  std::vector<DeviceId> there = on;
  std::erase_if(there, [&](DeviceId device) { return topology.FindDevice(device) == nullptr; });
  PW_RETURN_IF_ERROR(context_->devices().CheckApart(there));
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
  if (static_cast<int64_t>(table_->size()) >= fabric_->limits().handles) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", table_->size(), " programs, which is the limit: drop some (jax.clear_caches())"));
  }
  record.id = ExecutableId(fabric_->NextId());
  record.devices = std::move(request.devices);
  record.physical = context_->devices().PhysicalOf(on);
  return record;
}

void SessionExecutables::Compile(CompileRequest request, ResultCallback<Info> done) {
  if (request.format == session::kHostFunctionFormat) return functions_->Compile(std::move(request), std::move(done));
  absl::StatusOr<program::Executable> record = CheckCompile(request);
  if (!record.ok()) return context_->Answer<Info>(std::move(done), record.status());
  Command command;
  auto& compile = *command.mutable_compile();
  compile.set_executable(record->id.v);
  compile.set_session(context_->id().v);
  compile.set_user(user_);
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
  if (calls_back) lanes_->OpenForCalls(record->hosts);
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
    fabric_->compiles().Add(id, host, context_->id(), [this, pending](absl::StatusOr<::pathways::v1::Compiled> compiled) {
      Take(std::move(compiled), pending->answer);
      if (--pending->left == 0) OnCompiled(*pending);
    });
    fabric_->outbox().Add(host, command, {request.program, options});
  }
}

// Names the host of each device, and the addresses at which the hosts' runtimes meet, for a program over several hosts. A lost
// host gets an address that leads nowhere.
void SessionExecutables::NameHosts(const program::Executable& record, ::pathways::v1::Compile& compile) const {
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

void SessionExecutables::OnCompiled(PendingCompile& compile) {
  program::Executable& record = compile.record;
  fabric_->CountCompile(context_->id(), fabric_->Now() - compile.began);
  if (!compile.answer.ok()) {
    if (record.hosts.size() > 1) table_->DropFromHosts(record);  // some hosts may have it
    return context_->Answer<Info>(std::move(compile.done), compile.answer.status());
  }
  if (compile.source->translated) fabric_->CountTranslated();
  const bool elsewhere = compile.in_part || context_->devices().PhysicalOf(record.devices) != record.physical;
  absl::Status unloaded;
  if (elsewhere) {
    table_->DropFromHosts(record);
    unloaded = context_->devices().CheckPresent(record.devices);
    // The slice of the devices has moved meanwhile, or a host has taken their seat.
    if (unloaded.ok()) return Compile(*compile.source, std::move(compile.done));
    record.physical = record.devices;  // they are lost, and stand-ins have compiled it
    record.hosts.clear();
  }
  absl::StatusOr<std::shared_ptr<const program::Executable>> complete = program::CompleteExecutable(record, *compile.answer);
  if (std::any_of(record.devices.begin(), record.devices.end(), resource::IsVirtual)) {  // their slice may have been released
    if (absl::Status status = context_->devices().Check(record.devices); !status.ok()) complete = status;
  }
  if (!complete.ok()) {
    table_->DropFromHosts(record);
    return context_->Answer<Info>(std::move(compile.done), complete.status());
  }
  ExecutableEntry entry{*std::move(complete), nullptr, {}, absl::OkStatus(), std::move(compile.source), compile.calls_back,
                        std::move(unloaded)};
  context_->Answer<Info>(std::move(compile.done), table_->Add(std::move(entry)));
}

absl::Status SessionExecutables::Destruct(Handle executable) {
  PW_ASSIGN_OR_RETURN(const ExecutableEntry* entry, table_->Find(executable));
  if (entry->function != nullptr)
    functions_->Drop(entry->record);
  else
    table_->DropFromHosts(*entry->record);
  table_->Erase(executable);
  return absl::OkStatus();
}

void SessionExecutables::Describe(Handle executable, ::pathways::v1::Describe::What what,
                                  ResultCallback<::pathways::v1::Described> done) {
  absl::StatusOr<ExecutableEntry*> entry = table_->Find(executable);
  absl::Status status = entry.status();
  if (status.ok() && (*entry)->function != nullptr)
    status = absl::UnimplementedError("a Python function has no compiled text and no costs");
  if (status.ok()) status = context_->devices().Check((*entry)->record->devices);
  if (status.ok() && !(*entry)->unloaded.ok()) status = (*entry)->unloaded;
  if (!status.ok()) return context_->Answer<::pathways::v1::Described>(std::move(done), status);
  const program::Executable& record = *(*entry)->record;
  Command command;
  auto& describe = *command.mutable_describe();
  describe.set_query(context_->names().now().NextId());
  describe.set_executable(record.id.v);
  describe.set_what(what);
  fabric_->descriptions().Add(describe.query(), record.hosts.front(), context_->id(),
                              [this, done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
                                if (described.ok() && described->status().code() != 0)
                                  described = session::StatusFrom(described->status());
                                context_->Answer<::pathways::v1::Described>(std::move(done), std::move(described));
                              });
  fabric_->outbox().Add(record.hosts.front(), std::move(command));
}

void SessionExecutables::GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) {
  Describe(executable, ::pathways::v1::Describe::COST_ANALYSIS,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             CostAnalysis analysis;
             for (const auto& [name, number] : described->numbers()) analysis.numbers[name] = number;
             std::move(done)(std::move(analysis));
           });
}

void SessionExecutables::GetProgramText(Handle executable, ResultCallback<std::string> done) {
  Describe(executable, ::pathways::v1::Describe::PROGRAM_TEXT,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             std::move(done)(described->text());
           });
}

void SessionExecutables::GetProgramModule(Handle executable, ResultCallback<std::string> done) {
  Describe(executable, ::pathways::v1::Describe::PROGRAM_MODULE,
           [done = std::move(done)](absl::StatusOr<::pathways::v1::Described> described) mutable {
             if (!described.ok()) return std::move(done)(described.status());
             std::move(done)(std::move(*described->mutable_module()));
           });
}

std::shared_ptr<void> SessionExecutables::Replace(const Twins& twins) {
  auto old = std::make_shared<std::vector<std::shared_ptr<const program::Executable>>>();
  for (const auto& [handle, twin_handle] : twins) {
    ExecutableEntry* const twin = table_->FindOrNull(twin_handle);
    ExecutableEntry* const entry = table_->FindOrNull(handle);
    if (twin == nullptr) continue;
    if (entry == nullptr) {  // the client has dropped it meanwhile
      Destruct(twin_handle).IgnoreError();
      continue;
    }
    old->push_back(std::exchange(entry->record, Renamed(*twin->record, *entry->record)));
    entry->unloaded = twin->unloaded;
    table_->Erase(twin_handle);
  }
  return std::shared_ptr<void>(nullptr, [table = table_, old, alive = context_->alive()](void*) {
    for (const auto& record : *old) {
      if (!alive.expired()) table->DropFromHosts(*record);
    }
  });
}

}  // namespace pw::controller
