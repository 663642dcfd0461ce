#include "pathways/controller/session/executables/session_functions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/context/joint_end.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using session::HostFunction;

constexpr size_t kMostStringBytes = 16 << 20;  // of the arguments of a call, for they travel with its commands

absl::StatusOr<program::Value> ValueOf(const buffers::ArraySpec& spec) {
  program::Value value;
  value.dtype = spec.dtype;
  PW_ASSIGN_OR_RETURN(value.shard_dims, spec.sharding.ShardDims(spec.dims, 0));
  value.memory_kind = spec.sharding.memory_kind();
  return value;
}

// Returns the function with other devices: `places`, in the order of its own.
HostFunction OnPlaces(const HostFunction& function, const std::vector<DeviceId>& places) {
  absl::flat_hash_map<DeviceId, DeviceId> place_of;
  for (size_t i = 0; i < places.size(); ++i) place_of[function.devices[i]] = places[i];
  HostFunction there;
  there.name = function.name;
  there.devices = places;
  const auto move = [&](DeviceId device) { return place_of.at(device); };
  for (const buffers::ArraySpec& spec : function.inputs) there.inputs.push_back(OnDevices(spec, move));
  for (const buffers::ArraySpec& spec : function.outputs) there.outputs.push_back(OnDevices(spec, move));
  return there;
}

// Parses a client's function, and sets the devices of the request if it names none.
absl::StatusOr<HostFunction> ParseFunction(CompileRequest& request) {
  PW_ASSIGN_OR_RETURN(HostFunction function, session::ParseHostFunction(request.program));
  if (!function.physical.empty())
    return absl::InvalidArgumentError(absl::StrCat("the Python function ", function.name,
                                                   " names physical devices, which only the controller knows"));
  if (request.devices.empty()) request.devices = function.devices;
  if (request.devices.size() == function.devices.size()) return function;
  return absl::InvalidArgumentError(absl::StrCat("the Python function ", function.name, " on ", function.devices.size(),
                                                 " devices cannot run on ", request.devices.size()));
}

// Sets the fields of the record that the function determines.
absl::Status FillRecord(const HostFunction& function, program::Executable* record) {
  record->name = function.name;
  record->fingerprint = absl::StrCat("python-function-", record->id.v);
  record->num_partitions = static_cast<int>(function.devices.size());
  for (const buffers::ArraySpec& spec : function.inputs) {
    PW_ASSIGN_OR_RETURN(program::Value value, ValueOf(spec));
    record->parameters.push_back(std::move(value));
  }
  for (const buffers::ArraySpec& spec : function.outputs) {
    PW_ASSIGN_OR_RETURN(program::Value value, ValueOf(spec));
    record->outputs.push_back(std::move(value));
  }
  record->output_specs = std::make_shared<const std::vector<buffers::ArraySpec>>(function.outputs);
  return absl::OkStatus();
}

}  // namespace

// A function that its hosts are loading.
struct SessionFunctions::Pending {
  program::Executable record;
  std::shared_ptr<const HostFunction> function;
  std::shared_ptr<const CompileRequest> source;
  size_t left = 0;
  absl::Status status;
  ResultCallback<std::shared_ptr<const ExecutableInfo>> done;
};

// The commands of a call.
struct SessionFunctions::Outgoing {
  struct Strings {
    size_t command;
    uint32_t arg;
    int32_t shard;
    std::shared_ptr<StringCell> cell;
    SessionContext::Record array;
  };
  std::vector<std::pair<HostId, Command>> commands;  // in the order of the function's hosts
  std::vector<Strings> strings;
  std::vector<std::shared_ptr<void>> to_drop;  // functions, when it has been sent
  std::vector<SessionContext::Record> kept;    // its arrays: hosts must not be told to free them before they get the commands

  bool ready() const {
    return std::all_of(strings.begin(), strings.end(), [](const Strings& s) { return s.array->settled(); });
  }
};

SessionFunctions::SessionFunctions(SessionContext* context, PendingReads* reads, SessionLanes* lanes, ExecutableTable* table)
    : context_(context), fabric_(context->fabric()), reads_(reads), lanes_(lanes), table_(table) {}
SessionFunctions::~SessionFunctions() = default;

absl::StatusOr<program::Executable> SessionFunctions::Check(const HostFunction& function) const {
  PW_RETURN_IF_ERROR(context_->devices().Check(function.devices));
  PW_RETURN_IF_ERROR(context_->devices().CheckApart(function.devices));
  for (DeviceId id : function.devices) {
    const resource::Device& device = *fabric_->topology().FindDevice(id);
    if (device.description.kind == resource::kCpuDeviceKind) continue;
    return absl::InvalidArgumentError(absl::StrCat("the Python function ", function.name, " is to run on ", ToString(id),
                                                   ", which is of kind '", device.description.kind,
                                                   "': Python functions take and make arrays on CPU devices only"));
  }
  if (static_cast<int64_t>(table_->size()) >= fabric_->limits().handles)
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", table_->size(), " programs, which is the limit: drop some"));
  program::Executable record;
  record.id = ExecutableId(fabric_->NextId());
  record.owner = context_->id();
  record.devices = function.devices;
  record.physical = context_->devices().PhysicalOf(function.devices);
  PW_ASSIGN_OR_RETURN(record.hosts, dispatch::HostsOfComputation(fabric_->topology(), function.devices));
  PW_RETURN_IF_ERROR(FillRecord(function, &record));
  return record;
}

Command SessionFunctions::LoadCommand(const program::Executable& record, size_t bytes) const {
  Command command;
  auto& compile = *command.mutable_compile();
  compile.set_executable(record.id.v);
  compile.set_session(context_->id().v);
  compile.set_format(session::kHostFunctionFormat);
  compile.set_program_bytes(bytes);
  const resource::Topology& topology = fabric_->topology();
  for (DeviceId id : record.physical) {
    const resource::Device& device = *topology.FindDevice(id);
    compile.add_local_devices(device.local_ordinal);
    compile.add_hosts(device.host.v);
  }
  for (HostId host : topology.hosts())
    session::ToProto(topology.FindHost(host)->devices, compile.mutable_function_hosts()->add_hosts()->mutable_devices());
  return command;
}

void SessionFunctions::Compile(CompileRequest request, ResultCallback<Info> done) {
  absl::StatusOr<HostFunction> function = ParseFunction(request);
  if (!function.ok()) return context_->Answer<Info>(std::move(done), function.status());
  absl::StatusOr<program::Executable> record = Check(OnPlaces(*function, request.devices));
  if (!record.ok()) return context_->Answer<Info>(std::move(done), record.status());
  Bytes payload = request.program;
  if (record->physical != function->devices) {
    function->physical = record->physical;
    payload = Bytes::FromString(session::SerializeHostFunction(*function));
    function->physical.clear();
  }
  function->text.clear();               // the request has it
  lanes_->OpenForCalls(record->hosts);  // for what the processes print
  Command command = LoadCommand(*record, payload.size());
  const std::vector<HostId> all = fabric_->topology().hosts();
  auto pending = std::make_shared<Pending>();
  pending->record = *std::move(record);
  pending->function = std::make_shared<const HostFunction>(*std::move(function));
  pending->left = pending->record.hosts.size();
  pending->done = std::move(done);
  pending->source = std::make_shared<const CompileRequest>(request);
  for (HostId host : pending->record.hosts) {
    fabric_->compiles().Add(pending->record.id.v, host, context_->id(),
                            [this, pending](absl::StatusOr<::pathways::v1::Compiled> compiled) {
                              pending->status.Update(compiled.ok() ? session::StatusFrom(compiled->status()) : compiled.status());
                              if (--pending->left == 0) OnLoaded(*pending);
                            });
    const auto self = std::find(all.begin(), all.end(), host) - all.begin();
    command.mutable_compile()->mutable_function_hosts()->set_self(static_cast<uint32_t>(self));
    fabric_->outbox().Add(host, command, {payload});
  }
}

void SessionFunctions::OnLoaded(Pending& pending) {
  if (!pending.status.ok()) {
    table_->DropFromHosts(pending.record);  // some hosts may have it
    return context_->Answer<Info>(std::move(pending.done), pending.status);
  }
  // The slice of the devices may have moved meanwhile, or is released.
  if (context_->devices().PhysicalOf(pending.record.devices) != pending.record.physical) {
    table_->DropFromHosts(pending.record);
    return Compile(*pending.source, std::move(pending.done));
  }
  ExecutableEntry entry;
  entry.record = std::make_shared<const program::Executable>(std::move(pending.record));
  entry.source = std::move(pending.source);
  entry.function = std::move(pending.function);
  context_->Answer<Info>(std::move(pending.done), table_->Add(std::move(entry)));
}

// Makes an array of strings that do not exist yet, and asks the hosts for them.
void SessionFunctions::AwaitStrings(Handle result, uint32_t index, const SessionContext::SpecPtr& spec, StringQueries* queries) {
  StringCells cells;
  for (int shard = 0; shard < spec->sharding.num_shards(); ++shard) {
    const HostId host = fabric_->topology().FindDevice(spec->sharding.devices()[shard])->host;
    const uint64_t query = context_->names().now().NextId();
    auto cell = cells.emplace_back(std::make_shared<StringCell>());
    cell->request = std::make_shared<RequestHold>(context_->names().now().hold());
    kept_strings_.emplace_back(fabric_->Now(), cell);
    fabric_->descriptions().Add(query, host, context_->id(), [cell](absl::StatusOr<::pathways::v1::Described> described) {
      const absl::Status status = described.ok() ? session::StatusFrom(described->status()) : described.status();
      cell->Fill(status.ok() ? absl::StatusOr<Bytes>(Bytes::FromString(std::move(*described->mutable_module()))) : status);
    });
    auto& asked = (*queries)[host].emplace_back();
    asked.set_result(index);
    asked.set_shard(shard);
    asked.set_query(query);
  }
  context_->InsertStrings(result, spec, std::move(cells));
}

void SessionFunctions::OnTick(absl::Time now) {
  while (!kept_strings_.empty() && now - kept_strings_.front().first >= kStringsKept) {
    if (const auto cell = kept_strings_.front().second.lock()) cell->request = nullptr;
    kept_strings_.pop_front();
  }
}

void SessionFunctions::Drop(std::shared_ptr<const program::Executable> function) {
  const std::shared_ptr<void> dropped(nullptr, [table = table_, alive = context_->alive(), function](void*) {
    if (!alive.expired()) table->DropFromHosts(*function);
  });
  for (auto& [stream, calls] : waiting_) calls.back().to_drop.push_back(dropped);
}

void SessionFunctions::AddOp(const Call& call, HostId host, OpId op, const std::shared_ptr<WeakArrays>& waiting) {
  OpsInFlight::Callback done = nullptr;
  if (call.run != nullptr) {
    ++call.run->missing;
    done = [run = call.run, fabric = fabric_](const absl::Status& status, std::optional<double>) {
      run->status.Update(status);
      if (--run->missing == 0) run->AnswerWaiter(*fabric);
    };
  }
  fabric_->ops().Add(host, op, waiting, std::move(done));
  if (fabric_->recorder().on()) context_->Trace(host, op, call.function.name);
}

void SessionFunctions::Launch(const Call& call) {
  const program::Executable& record = call.function;
  const int hosts = static_cast<int>(record.hosts.size());
  HostGroup* group = fabric_->groups().Of(record.hosts);
  std::vector<ArrayId> args, results;
  auto waiting = std::make_shared<WeakArrays>();
  StringQueries queries;
  Outgoing outgoing;
  for (const ArrayEntry* arg : call.args) {
    args.push_back(arg->record->id());
    outgoing.kept.push_back(arg->record);
  }
  AddStringArguments(call, &outgoing);  // before arrays are inserted, which moves the entries
  for (size_t i = 0; i < call.results.size(); ++i) results.push_back(context_->NewArrayId());  // clients derive these names
  for (size_t i = 0; i < call.results.size(); ++i) {
    SessionContext::SpecPtr spec = record.output_spec(static_cast<int>(i));
    if (spec->dtype == buffers::DType::kString) {
      AwaitStrings(call.results[i], static_cast<uint32_t>(i), spec, &queries);
      continue;
    }
    auto array = std::make_shared<buffers::LogicalArray>(results[i], context_->id(), spec, hosts, group);
    waiting->push_back(array);
    outgoing.kept.push_back(array);
    fabric_->gangs().Await(array);
    context_->arrays().Insert(call.results[i], {std::move(array), std::move(spec), nullptr, false, nullptr});
  }
  const dispatch::ExecuteCall plan{
      .session = context_->id(), .executable = &record, .args = args, .results = results, .stream = call.stream};
  const OpId op = context_->names().now().NextOpOfAll();
  for (HostId host : record.hosts) {
    AddOp(call, host, op, waiting);
    Command command = dispatch::MakeExecute(plan, op);
    for (auto& query : queries[host]) *command.mutable_execute()->add_string_results() = std::move(query);
    outgoing.commands.emplace_back(host, std::move(command));
  }
  SendInOrder(call.stream, std::move(outgoing));
}

void SessionFunctions::LaunchNode(NameScope& names, const NodeCall& call) {
  const program::Executable& record = call.function;
  std::vector<ArrayId> args, results;
  for (const SessionContext::Record& arg : call.args) args.push_back(arg->id());
  for (const SessionContext::Record& result : call.results) {
    results.push_back(result->id());
    fabric_->gangs().Await(result);
  }
  const dispatch::ExecuteCall plan{
      .session = context_->id(), .executable = &record, .args = args, .results = results, .stream = call.stream};
  const auto waiting = std::make_shared<const WeakArrays>(call.results.begin(), call.results.end());
  const auto ending = std::make_shared<JointEnd>(record.hosts.size(), call.done);
  for (HostId host : record.hosts) {
    if (!fabric_->outbox().HasHost(host)) {
      const absl::Status lost = fabric_->losses().Of(host);
      for (const SessionContext::Record& result : call.results) result->Poison(lost);
      ending->EndOne(lost);
      continue;
    }
    for (const SessionContext::Record& result : call.results) result->Expect(1);
    const OpId op = names.NextOp(host);
    fabric_->ops().Add(host, op, waiting,
                       [ending](const absl::Status& status, std::optional<double>) { ending->EndOne(status); });
    Command command = dispatch::MakeExecute(plan, op);
    command.mutable_execute()->set_location(call.location);
    fabric_->outbox().AddNow(host, std::move(command));
    if (fabric_->recorder().on()) context_->Trace(host, op, record.name);
  }
}

void SessionFunctions::AddStringArguments(const Call& call, Outgoing* outgoing) const {
  const std::vector<HostId>& hosts = call.function.hosts;
  for (size_t k = 0; k < call.args.size(); ++k) {
    const ArrayEntry& arg = *call.args[k];
    if (arg.strings == nullptr) continue;
    const std::vector<DeviceId>& devices = arg.spec->sharding.devices();
    for (size_t shard = 0; shard < devices.size(); ++shard) {
      const HostId host = fabric_->topology().FindDevice(devices[shard])->host;
      const auto command = static_cast<size_t>(std::find(hosts.begin(), hosts.end(), host) - hosts.begin());
      outgoing->strings.push_back(
          {command, static_cast<uint32_t>(k), static_cast<int32_t>(shard), (*arg.strings)[shard], arg.record});
    }
  }
}

void SessionFunctions::SendInOrder(uint64_t stream, Outgoing outgoing) {
  if (outgoing.ready() && !waiting_.contains(stream)) return Send(outgoing);
  std::vector<SessionContext::Record> arrays;
  for (const Outgoing::Strings& strings : outgoing.strings) arrays.push_back(strings.array);
  waiting_[stream].push_back(std::move(outgoing));
  if (!arrays.empty()) reads_->Hold(std::move(arrays), [this, stream](const absl::Status&) { Advance(stream); });
}

void SessionFunctions::Advance(uint64_t stream) {
  const auto found = waiting_.find(stream);
  if (found == waiting_.end()) return;
  std::deque<Outgoing>& calls = found->second;
  while (!calls.empty() && calls.front().ready()) {
    Send(calls.front());
    calls.pop_front();
  }
  if (calls.empty()) waiting_.erase(found);
}

void SessionFunctions::Send(Outgoing& outgoing) {
  size_t bytes = 0;
  for (const Outgoing::Strings& strings : outgoing.strings) {
    auto& argument = *outgoing.commands[strings.command].second.mutable_execute()->add_string_args();
    argument.set_arg(strings.arg);
    argument.set_shard(strings.shard);
    absl::Status status = strings.array->status();
    if (status.ok()) bytes += strings.cell->data->size();
    if (bytes > kMostStringBytes) {
      status = absl::ResourceExhaustedError(absl::StrCat("the strings that a call of a Python function takes are more than ",
                                                         kMostStringBytes, " bytes: pass them as an array of uint8"));
    }
    if (status.ok())
      argument.set_contents(std::string(strings.cell->data->view()));
    else
      session::ToProto(status, argument.mutable_error());
  }
  for (auto& [host, command] : outgoing.commands) {
    if (fabric_->outbox().HasHost(host)) fabric_->outbox().Add(host, std::move(command));
  }
}

}  // namespace pw::controller
