#include "pathways/frontend/testing/fake_cluster.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/stablehlo_version.h"
#include "pathways/resource/topology.h"

namespace pw::frontend::testing {

using controller::CopySemantics;
using controller::Handle;
using HandleSpan = absl::Span<const Handle>;
using SpecSpan = absl::Span<const buffers::ArraySpec>;

FakeSession::~FakeSession() {
  for (auto& [handle, admitted] : waiting) {
    cluster_->Post(
        [admitted = std::move(admitted)]() mutable { std::move(admitted)(absl::CancelledError("the session has ended")); });
  }
  for (auto& [handle, array] : arrays) {
    if (array.data != nullptr) array.data->waiters.clear();  // they may hold the data
  }
  cluster_->sessions.erase(id_.v);
}

absl::StatusOr<FakeSession::Array*> FakeSession::Find(Handle handle) {
  auto it = arrays.find(handle);
  if (it == arrays.end()) return absl::NotFoundError(absl::StrCat("there is no array ", handle));
  return &it->second;
}

absl::Status FakeSession::Add(Handle handle, Array array) {
  if (handle == 0) return absl::InvalidArgumentError("handle 0 names nothing");
  if (!arrays.emplace(handle, std::move(array)).second)
    return absl::AlreadyExistsError(absl::StrCat("handle ", handle, " is taken"));
  return absl::OkStatus();
}

void FakeSession::AnnounceHostBuffer(Handle handle, int64_t bytes, controller::StatusCallback admitted) {
  absl::Status status;
  if (bytes < 0) status = absl::InvalidArgumentError("a negative number of bytes was announced");
  if (bytes > staged_limit) status = absl::ResourceExhaustedError(absl::StrCat("over the limit of ", staged_limit));
  if (host_buffers.contains(handle)) status = absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " is there already"));
  if (status.ok() && full) return static_cast<void>(waiting.emplace(handle, std::move(admitted)));
  if (status.ok()) announced[handle] = bytes;
  cluster_->Post([status, admitted = std::move(admitted)]() mutable { std::move(admitted)(status); });
}

absl::Status FakeSession::StoreHostBuffer(Handle handle, Bytes data) {
  announced.erase(handle);
  if (host_buffers.contains(handle)) return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " is there already"));
  for (auto& [array, record] : arrays) {
    for (const auto& source : record.sources) {
      if (source.host_buffer == handle) {
        if (record.data->there) return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " has come already"));
        record.data->bytes = std::move(data);
        record.data->there = true;
        for (auto& waiter : std::exchange(record.data->waiters, {})) cluster_->Post(std::move(waiter));
        return absl::OkStatus();
      }
    }
  }
  host_buffers.emplace(handle, std::move(data));
  return absl::OkStatus();
}

void FakeSession::LookupHostBuffer(Handle handle, controller::ResultCallback<Bytes> done) {
  auto it = host_buffers.find(handle);
  absl::StatusOr<Bytes> data = absl::NotFoundError(absl::StrCat("there is no host buffer ", handle));
  if (it != host_buffers.end()) data = it->second;
  cluster_->Post([data = std::move(data), done = std::move(done)]() mutable { std::move(done)(std::move(data)); });
}

absl::Status FakeSession::DeleteHostBuffer(Handle handle) {
  return host_buffers.erase(handle) > 0 ? absl::OkStatus()
                                        : absl::NotFoundError(absl::StrCat("there is no host buffer ", handle));
}

absl::Status FakeSession::MakeArray(Handle result, const buffers::ArraySpec& spec, std::vector<controller::HostShard> sources) {
  Array array{spec};
  array.sources = std::move(sources);
  array.data->there = array.sources.empty();
  for (const auto& source : array.sources) {
    if (auto it = host_buffers.find(source.host_buffer); it != host_buffers.end()) {
      array.data->bytes = it->second;
      array.data->there = true;
      host_buffers.erase(it);
    }
  }
  return Add(result, std::move(array));
}

absl::Status FakeSession::MakeErrorArray(Handle result, const buffers::ArraySpec& spec, absl::Status error) {
  return Add(result, Array{spec, std::move(error)});
}

absl::Status FakeSession::Assemble(Handle result, const buffers::ArraySpec& spec, HandleSpan singles, CopySemantics) {
  Array array{spec};
  for (Handle single : singles) {
    absl::StatusOr<Array*> part = Find(single);
    array.error.Update(part.ok() ? (*part)->error : part.status());
    if (part.ok()) array.data = (*part)->data;
  }
  const absl::Status status = array.error;
  PW_RETURN_IF_ERROR(Add(result, std::move(array)));
  return status;
}

absl::Status FakeSession::Disassemble(HandleSpan results, Handle array, CopySemantics) {
  return Derive(results, std::vector<Handle>(results.size(), array), {});
}

absl::Status FakeSession::FullyReplicatedShard(Handle result, Handle array, CopySemantics) {
  return Derive({&result, 1}, {&array, 1}, {});
}

absl::StatusOr<std::vector<FakeSession::Array>> FakeSession::DeriveAll(HandleSpan results, HandleSpan inputs, SpecSpan specs) {
  if (results.size() != inputs.size()) return absl::InvalidArgumentError("as many results as arrays are needed");
  std::vector<Array> derived;
  for (size_t i = 0; i < inputs.size(); ++i) {
    PW_ASSIGN_OR_RETURN(Array * input, Find(inputs[i]));
    derived.push_back(*input);
    derived.back().sources.clear();
    if (!specs.empty()) derived.back().spec = specs[i];
  }
  return derived;
}

absl::Status FakeSession::Derive(HandleSpan results, HandleSpan inputs, SpecSpan specs) {
  absl::StatusOr<std::vector<Array>> derived = DeriveAll(results, inputs, specs);
  for (size_t i = 0; i < results.size(); ++i) {
    PW_RETURN_IF_ERROR(Add(results[i], derived.ok() ? (*derived)[i] : Array{buffers::ArraySpec(), derived.status()}));
  }
  return derived.status();
}

absl::Status FakeSession::Copy(HandleSpan results, HandleSpan inputs, std::optional<std::vector<DeviceId>> devices,
                               std::optional<std::string> memory_kind, CopySemantics) {
  last_copy_devices = std::move(devices);
  last_copy_memory_kind = std::move(memory_kind);
  return Derive(results, inputs, {});
}

absl::Status FakeSession::Reshard(HandleSpan results, HandleSpan inputs, SpecSpan specs, CopySemantics) {
  return Derive(results, inputs, specs);
}

absl::Status FakeSession::Remap(HandleSpan results, HandleSpan inputs, const buffers::RemapPlan& plan, SpecSpan specs,
                                CopySemantics) {
  last_remap = plan;
  if (inputs.empty()) return absl::InvalidArgumentError("nothing to remap");
  return Derive(results, std::vector<Handle>(results.size(), inputs[0]), specs);
}

absl::Status FakeSession::Bitcast(HandleSpan results, HandleSpan inputs, SpecSpan specs, CopySemantics) {
  return Derive(results, inputs, specs);
}

void FakeSession::AfterAll(HandleSpan handles, absl::AnyInvocable<void() &&> then) {
  for (size_t i = 0; i < handles.size(); ++i) {
    absl::StatusOr<Array*> array = Find(handles[i]);
    if (!array.ok() || (*array)->data->there) continue;
    (*array)->data->waiters.push_back([this, rest = std::vector<Handle>(handles.begin() + i, handles.end()),
                                       then = std::move(then)]() mutable { AfterAll(rest, std::move(then)); });
    return;
  }
  cluster_->Post(std::move(then));
}

void FakeSession::WhenReady(HandleSpan inputs, controller::StatusCallback done) {
  absl::Status status;
  for (Handle input : inputs) {
    absl::StatusOr<Array*> array = Find(input);
    status.Update(array.ok() ? (*array)->error : array.status());
  }
  AfterAll(inputs, [status, done = std::move(done)]() mutable { std::move(done)(status); });
}

void FakeSession::SaveArrays(session::SaveRequest request, controller::StatusCallback done) {
  absl::Status status = save_error;
  for (const auto& array : request.arrays) {
    const absl::StatusOr<Array*> found = Find(array.array);
    status.Update(found.ok() ? (*found)->error : found.status());
    if (status.ok()) saved[absl::StrCat(request.location, "/", array.name)] = **found;
  }
  cluster_->Post([status, done = std::move(done)]() mutable { std::move(done)(status); });
}

void FakeSession::LoadArrays(session::LoadRequest request, controller::StatusCallback done) {
  absl::Status status;
  for (const auto& array : request.arrays) {
    const auto found = saved.find(absl::StrCat(request.location, "/", array.name));
    const absl::Status error =
        found == saved.end() ? absl::NotFoundError(absl::StrCat("there is no array ", array.name)) : absl::OkStatus();
    status.Update(error);
    status.Update(Add(array.result, error.ok() ? Array{array.spec, error, found->second.data} : Array{array.spec, error}));
  }
  cluster_->Post([status, done = std::move(done)]() mutable { std::move(done)(status); });
}

void FakeSession::CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims>,
                                   controller::StatusCallback done) {
  ++copies_to_host;
  absl::StatusOr<Array*> found = Find(array);
  const absl::Status status = found.ok() ? (*found)->error : found.status();
  std::shared_ptr<Contents> data = found.ok() ? (*found)->data : nullptr;
  AfterAll({&array, 1}, [this, status, data, host_buffer, done = std::move(done)]() mutable {
    std::move(done)(status.ok() ? StoreHostBuffer(host_buffer, data->bytes) : status);
  });
}

absl::Status FakeSession::Delete(HandleSpan handles) {
  absl::Status status;
  for (Handle handle : handles) {
    absl::StatusOr<Array*> array = Find(handle);
    status.Update(array.status());
    if (array.ok()) (*array)->deleted = true;
  }
  return status;
}

absl::Status FakeSession::Destruct(HandleSpan handles) {
  absl::Status status;
  for (Handle handle : handles) {
    if (arrays.erase(handle) == 0) status.Update(absl::NotFoundError(absl::StrCat("there is no array ", handle)));
  }
  return status;
}

absl::StatusOr<bool> FakeSession::IsDeleted(Handle handle) {
  PW_ASSIGN_OR_RETURN(Array * array, Find(handle));
  return array->deleted;
}

absl::StatusOr<buffers::ArraySpec> FakeSession::Spec(Handle handle) {
  PW_ASSIGN_OR_RETURN(Array * array, Find(handle));
  return array->spec;
}

void FakeSession::AskPublished(const session::PublishedQuestion&, controller::ResultCallback<std::string> done) {
  std::move(done)(std::string("{}"));
}
void FakeSession::AwaitEffects(controller::StatusCallback done) { std::move(done)(absl::OkStatus()); }

void FakeSession::CompileProgram(Bytes, controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>> done) {
  cluster_->Post(
      [done = std::move(done)]() mutable { std::move(done)(absl::UnimplementedError("no programs of many nodes here")); });
}

// Makes a program with one parameter and one output, f32[4], on the first of its devices.
void FakeSession::Compile(controller::CompileRequest request,
                          controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>> done) {
  last_compile = std::move(request);
  auto info = std::make_shared<controller::ExecutableInfo>();
  info->handle = NewHandle();
  info->name = "jit_f";
  info->fingerprint = "fingerprint";
  info->devices = last_compile.devices.empty() ? std::vector<DeviceId>{DeviceId(0)} : last_compile.devices;
  info->parameters.resize(1);
  info->outputs.resize(1);
  for (auto* value : {&info->parameters[0], &info->outputs[0]}) {
    value->dtype = buffers::DType::kF32;
    value->shard_dims = {4};
    value->memory_kind = "device";
  }
  info->donated_inputs = {0};
  info->output_specs.push_back({buffers::DType::kF32, {4}, buffers::Sharding::SingleDevice(info->devices[0], "device"), ""});
  executables[info->handle] = info;
  absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> result = info;
  ++compilations;
  const auto version = program::StablehloVersionOf(std::string(last_compile.program.view()));
  if (version.has_value() && *version > *program::ParseStablehloVersion(cluster_->info()->stablehlo_version)) {
    absl::Status refusal = absl::InvalidArgumentError(absl::StrCat("the devices do not read StableHLO ", version->ToString()));
    refusal.SetPayload(controller::kNewerThanRuntime, absl::Cord());
    result = refusal;
  }
  if (last_compile.program.view() == "broken") result = absl::InvalidArgumentError("the program does not parse");
  cluster_->Post([result = std::move(result), done = std::move(done)]() mutable { std::move(done)(std::move(result)); });
}

absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> FakeSession::Info(Handle executable) {
  auto it = executables.find(executable);
  if (it == executables.end()) return absl::NotFoundError(absl::StrCat("there is no executable ", executable));
  return it->second;
}

absl::StatusOr<controller::ExecuteReply> FakeSession::Execute(const controller::ExecuteRequest& request) {
  last_execute = request;
  PW_ASSIGN_OR_RETURN(auto info, Info(request.executable));
  controller::ExecuteReply reply;
  reply.results = request.results;
  if (reply.results.empty()) reply.results.push_back(NewHandle());
  reply.specs = std::make_shared<std::vector<buffers::ArraySpec>>(info->output_specs);
  const absl::Status status = Derive(reply.results, request.args, *reply.specs);
  if (request.status != 0) runs[request.status] = status;
  if (!status.ok()) return status;
  return reply;
}

void FakeSession::FetchExecuteResult(Handle status, controller::ResultCallback<controller::RunResult> done) {
  absl::StatusOr<controller::RunResult> result = absl::NotFoundError(absl::StrCat("there is no future ", status));
  if (auto it = runs.find(status); it != runs.end()) {
    result = it->second.ok() ? absl::StatusOr<controller::RunResult>(controller::RunResult{{{"cpu", 2.5}}}) : it->second;
    runs.erase(it);
  }
  cluster_->Post([result = std::move(result), done = std::move(done)]() mutable { std::move(done)(std::move(result)); });
}

void FakeSession::GetCostAnalysis(Handle executable, controller::ResultCallback<controller::CostAnalysis> done) {
  absl::StatusOr<controller::CostAnalysis> costs = controller::CostAnalysis{{{"flops", 8.0}}};
  if (auto info = Info(executable); !info.ok()) costs = info.status();
  cluster_->Post([costs = std::move(costs), done = std::move(done)]() mutable { std::move(done)(std::move(costs)); });
}

void FakeSession::GetProgramText(Handle executable, controller::ResultCallback<std::string> done) {
  absl::StatusOr<std::string> text = std::string("HloModule f");
  if (auto info = Info(executable); !info.ok()) text = info.status();
  cluster_->Post([text = std::move(text), done = std::move(done)]() mutable { std::move(done)(std::move(text)); });
}

absl::Status FakeSession::DestructExecutable(Handle executable) {
  return executables.erase(executable) > 0 ? absl::OkStatus()
                                           : absl::NotFoundError(absl::StrCat("there is no executable ", executable));
}

FakeCluster::FakeCluster(Executor* executor, int devices) : executor_(executor) {
  auto info = std::make_shared<controller::ClusterInfo>();
  info->platform_name = "cpu";
  info->platform_version = "fake";
  info->stablehlo_version = "1.13.7";
  for (int i = 0; i < devices; ++i) {
    controller::DeviceInfo device;
    device.id = DeviceId(i);
    device.platform_name = "cpu";
    device.kind = "cpu";
    device.memories = {MemoryId(i)};
    device.int_attributes["slice_index"] = i < 2 ? 0 : 1;
    device.string_attributes["island"] = i < 2 ? "left" : "right";
    info->devices.push_back(device);
    info->memories.push_back({MemoryId(i), "device", 0, {DeviceId(i)}, "", ""});
  }
  info_ = std::move(info);
}

void FakeCluster::Post(absl::AnyInvocable<void() &&> task) {
  if (executor_ != nullptr) return executor_->Post(std::move(task));
  tasks_.push_back(std::move(task));
}

void FakeCluster::RunAll() {
  while (!tasks_.empty()) {
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    std::move(task)();
  }
}

void FakeCluster::OpenSession(session::NewSession wanted, controller::ResultCallback<std::shared_ptr<controller::Session>> done) {
  if (!open_error.ok()) return Answer(absl::StatusOr<std::shared_ptr<controller::Session>>(open_error), std::move(done));
  const SessionId id(next_session_++);
  auto session = std::make_shared<FakeSession>(this, id);
  sessions[id.v] = session.get();
  if (const auto share = gang::Changed({}, wanted.share); share.ok()) shares[id.v] = *share;
  Answer(absl::StatusOr<std::shared_ptr<controller::Session>>(std::move(session)), std::move(done));
}

void FakeCluster::SetHostCallHandler(SessionId session, std::shared_ptr<controller::HostCallHandler> handler) {
  handlers[session.v] = std::move(handler);
}

void FakeCluster::ChangeShare(SessionId session, const gang::ShareChange& change, controller::ResultCallback<gang::Share> done) {
  absl::StatusOr<gang::Share> share = absl::NotFoundError("no such client");
  if (sessions.contains(session.v)) share = gang::Changed(shares[session.v], change);
  if (share.ok()) shares[session.v] = *share;
  Answer(std::move(share), std::move(done));
}

void FakeCluster::RecordTrace(absl::Duration, size_t, controller::ResultCallback<controller::ClusterTrace> done) {
  std::move(done)(controller::ClusterTrace{R"({"traceEvents":[]})", 0, 0, {}});
}

void FakeCluster::StartProfile(SessionId session, const session::ProfileOptions&, controller::StatusCallback done) {
  profiled = session;
  Post([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
}

void FakeCluster::StopProfile(SessionId session, controller::ResultCallback<session::ClusterProfile> done) {
  session::ClusterProfile profile;
  for (const char* host : {"h0", "h1"}) profile.hosts.push_back({host, 2, ""});
  absl::StatusOr<session::ClusterProfile> answer = absl::FailedPreconditionError("no profile");
  if (profiled == session) answer = std::move(profile);
  Answer(std::move(answer), std::move(done));
}

void FakeCluster::ReadProfile(SessionId session, size_t host, uint64_t offset, controller::ResultCallback<Bytes> done) {
  absl::StatusOr<Bytes> bytes = absl::NotFoundError("no profile");
  if (profiled == session && host < 2) bytes = Bytes::Copy(std::string(host == 0 ? "h0" : "h1").substr(offset, 1));
  Answer(std::move(bytes), std::move(done));
}

// The spare devices are 1048576 and 1048577.
std::shared_ptr<const controller::SpareDevices> FakeCluster::Spares(SessionId) {
  auto spares = std::make_shared<controller::SpareDevices>();
  for (int i = 0; i < 2; ++i) {
    controller::DeviceInfo device;
    device.id = DeviceId(resource::kFirstVirtualDevice.v + i);
    device.platform_name = device.kind = "cpu";
    device.memories = {MemoryId(device.id.v)};
    spares->devices.push_back(device);
    spares->memories.push_back({device.memories[0], "device", 0, {device.id}, "", ""});
  }
  return spares;
}

void FakeCluster::AddSlice(SessionId, const resource::SliceRequest& request,
                           controller::ResultCallback<controller::SliceState> done) {
  last_slice_request = request;
  absl::StatusOr<controller::SliceState> state = slice_state;
  if (std::string wrong = resource::Malformed(request); !wrong.empty()) state = absl::InvalidArgumentError(wrong);
  Answer(std::move(state), std::move(done));
}

void FakeCluster::AwaitSlice(SessionId, SliceId, absl::Duration, controller::ResultCallback<controller::SliceState> done) {
  Post([state = slice_state, done = std::move(done)]() mutable { std::move(done)(state); });
}

void FakeCluster::ReleaseSlice(SessionId, SliceId slice, controller::StatusCallback done) {
  released_slices.push_back(slice);
  Answer(absl::OkStatus(), std::move(done));
}

void FakeCluster::SuspendClient(SessionId, bool, controller::ResultCallback<controller::SuspendReport> done) {
  Post([done = std::move(done)]() mutable { std::move(done)(controller::SuspendReport{3, 12}); });
}

void FakeCluster::DrainHost(const std::string& host, bool, controller::ResultCallback<controller::DrainReport> done) {
  Post([host, done = std::move(done)]() mutable {
    std::move(done)(controller::DrainReport{host, {SliceId(1)}, {{SliceId(2), "full"}}});
  });
}

void FakeCluster::GetStatus(controller::ResultCallback<std::string> done) {
  Post([done = std::move(done)]() mutable { std::move(done)(std::string("{\"islands\": []}")); });
}

}  // namespace pw::frontend::testing
