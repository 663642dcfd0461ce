#include "pathways/worker/execute/programs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/worker/execute/program_checks.h"
#include "pathways/worker/store/shard.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

// Sets the devices of the program: those of all its hosts, and those of this host.
absl::Status PlaceOnHosts(const v1::Compile& command, HostId self, Program* program, device::CompileRequest* request) {
  if (command.hosts_size() != command.local_devices_size()) {
    return absl::InvalidArgumentError(absl::StrCat("a program over several hosts on ", command.local_devices_size(),
                                                   " devices of ", command.hosts_size(), " hosts"));
  }
  absl::flat_hash_map<uint32_t, std::string> processes;
  for (const auto& process : command.processes()) processes[process.host()] = process.address();
  absl::flat_hash_set<uint32_t> seen;  // there may be hundreds
  for (int p = 0; p < command.hosts_size(); ++p) {
    const uint32_t host = command.hosts(p);
    const bool here = HostId(host) == self;
    if (!here && processes[host].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("a program over several hosts does not say where host ", host, " is"));
    }
    request->positions.push_back({here ? "" : processes[host], command.local_devices(p)});
    if (seen.insert(host).second) program->hosts.push_back(host);
    if (!here) continue;
    request->devices.push_back(command.local_devices(p));
    program->positions.push_back(p);
  }
  if (request->devices.empty()) return absl::InvalidArgumentError("none of the program's devices is on this host");
  return absl::OkStatus();
}

absl::StatusOr<device::CompileRequest> ToRequest(const v1::Compile& command, const Bytes& payload, size_t devices, HostId self,
                                                 Program* program) {
  if (command.program_bytes() > payload.size() || command.options_bytes() != payload.size() - command.program_bytes()) {
    return absl::InvalidArgumentError("the program and its options do not have the sizes that were announced");
  }
  device::CompileRequest request;
  request.format = command.format();
  const absl::string_view bytes(reinterpret_cast<const char*>(payload.data()), payload.size());
  request.program = std::string(bytes.substr(0, command.program_bytes()));
  request.options = std::string(bytes.substr(command.program_bytes()));
  request.num_replicas = command.num_replicas();
  request.num_partitions = command.num_partitions();
  request.host_callbacks = command.host_callbacks();
  const int64_t wanted = int64_t{command.num_replicas()} * command.num_partitions();
  if (command.num_replicas() < 1 || command.num_partitions() < 1 || wanted != command.local_devices_size()) {
    return absl::InvalidArgumentError(absl::StrCat("a program of ", command.num_replicas(), " replicas and ",
                                                   command.num_partitions(), " partitions cannot run on ",
                                                   command.local_devices_size(), " devices"));
  }
  if (command.hosts().empty()) {
    request.devices.assign(command.local_devices().begin(), command.local_devices().end());
  } else {
    PW_RETURN_IF_ERROR(PlaceOnHosts(command, self, program, &request));
  }
  for (int device : request.devices) {
    if (device >= 0 && device < static_cast<int>(devices)) continue;
    return absl::InvalidArgumentError(absl::StrCat("there is no local device ", device, "; this host has ", devices));
  }
  return request;
}

void Fill(const device::ValueInfo& value, v1::Compiled::Value* out) {
  out->set_dtype(static_cast<int32_t>(value.dtype));
  for (int64_t d : value.dims) out->add_shard_dims(d);
  out->set_op_sharding(value.op_sharding);
  out->set_layout(value.layout);
  out->set_memory_kind(value.memory_kind);
}

// Returns who takes turns with others: a user with all sessions, since a user may have many of them.
std::string OwnerOf(const v1::Compile& command) {
  return command.user().empty() ? absl::StrCat("session ", command.session()) : absl::StrCat("user ", command.user());
}

}  // namespace

void Programs::Compile(const v1::Compile& command, const Bytes& payload) {
  auto program = std::make_shared<Program>();
  program->session = SessionId(command.session());
  programs_[ExecutableId(command.executable())] = program;
  absl::StatusOr<device::CompileRequest> request =
      ToRequest(command, payload, runtime_->devices().size(), context_->self(), program.get());
  if (!request.ok()) {
    Result failed;
    failed.program = request.status();
    return Finish(command.executable(), program, std::move(failed));
  }
  program->devices = request->devices;
  for (const auto& process : command.processes()) {
    if (HostId(process.host()) == context_->self()) continue;
    processes_[process.host()] = program->processes[process.host()] = process.address();
  }
  turns_.Post(OwnerOf(command),
              [this, alive = context_->alive(), strand = context_->strand(), runtime = runtime_, cache = cache_, kept = kept_,
               clock = context_->clock(), program, id = command.executable(), request = *std::move(request)]() mutable {
                if (alive.expired()) return;  // the worker is gone
                const absl::Time start = clock->Now();
                auto result = std::make_shared<Result>();
                if (program->unwanted.load(std::memory_order_relaxed))
                  result->program = absl::CancelledError("the client has gone, and with it this program");
                else
                  *result = CompileNow(runtime, *cache, kept.get(), request);
                result->seconds = absl::ToDoubleSeconds(clock->Now() - start);
                strand->Post([this, alive, program, id, result] {
                  if (!alive.expired()) Finish(id, program, std::move(*result));
                });
              });
}

Programs::Result Programs::CompileNow(device::DeviceRuntime* runtime, const CompileCache& cache, const KeptPrograms* kept,
                                      const device::CompileRequest& request) {
  Result result;
  if (absl::Status status = CheckCustomCalls(request.program); !status.ok()) {
    result.program = status;
    return result;
  }
  const std::string key = cache.Key(request, runtime->info());
  result.kept_name = KeptName(request, key);
  if (kept != nullptr) {
    if (const auto it = kept->find(result.kept_name); it != kept->end()) {
      result.program = it->second;
      result.from_cache = result.kept = true;
      return result;
    }
  }
  if (std::optional<std::string> entry = cache.Read(key); entry.has_value()) {
    result.program = runtime->Load(*entry, request);
    result.from_cache = result.program.ok();
    if (result.from_cache) return result;
    PW_LOG_WARNING << "a cached program does not load and is compiled again: " << result.program.status().ToString();
    cache.Remove(key);
  }
  result.program = runtime->Compile(request);
  if (!result.program.ok()) {
    const std::string& version = runtime->info().stablehlo_version;
    result.newer_than_runtime = IsNewerThanRuntime(result.program.status(), request.program, version);
    if (result.newer_than_runtime) result.program = ExplainNewerProgram(result.program.status(), request.program, version);
  } else if (cache.enabled()) {
    if (absl::StatusOr<std::string> bytes = (*result.program)->Serialize(); bytes.ok()) cache.Write(key, *bytes);
  }
  return result;
}

void Programs::Finish(uint64_t id, const ProgramRef& program, Result result) {
  program->pending = false;
  if (result.program.ok()) {
    program->loaded = *result.program;
    program->kept_name = result.kept_name;
    for (const device::ValueInfo& output : program->loaded->info().outputs) {
      program->output_bytes.push_back(DeviceBytes(output.dtype, output.dims));
    }
  } else {
    program->error = result.program.status();
  }
  if (result.kept) {
    PW_LOG_INFO << "the program '" << program->loaded->info().name << "' has outlived its controller, and is not compiled again";
  }
  Answer(id, result);
  std::vector<absl::AnyInvocable<void() &&>> waiters;
  waiters.swap(program->waiters);
  for (auto& waiter : waiters) std::move(waiter)();
}

void Programs::Answer(uint64_t id, const Result& result) {
  v1::Compiled* compiled = context_->outbox().Add()->mutable_compiled();
  compiled->set_executable(id);
  compiled->set_compile_seconds(result.seconds);
  if (!result.program.ok()) {
    *compiled->mutable_status() = ToProto(result.program.status());
    compiled->set_newer_than_runtime(result.newer_than_runtime);
    return;
  }
  const device::ProgramInfo& info = (*result.program)->info();
  compiled->set_name(info.name);
  compiled->set_fingerprint(info.fingerprint);
  for (const device::ValueInfo& value : info.outputs) Fill(value, compiled->add_outputs());
  for (const device::ValueInfo& value : info.parameters) Fill(value, compiled->add_parameters());
  for (int32_t k : info.donated_inputs) compiled->add_donated_inputs(k);
  compiled->set_code_bytes(info.code_bytes);
  compiled->set_memory_stats(info.memory_stats);
  compiled->set_from_cache(result.from_cache);
}

void Programs::SetPeers(const v1::Peers& peers) {
  std::map<uint32_t, std::string> known = std::move(processes_);
  processes_.clear();
  for (const auto& peer : peers.peers()) {
    if (auto it = known.find(peer.host()); it != known.end()) processes_.insert(known.extract(it));
  }
  for (const auto& [host, address] : known) {
    runtime_->LoseProcess(address, absl::UnavailableError(absl::StrCat("host ", host, " is lost")));
  }
}

void Programs::ReleaseOwner(SessionId session) {
  absl::erase_if(programs_, [session](const auto& entry) {
    if (entry.second->session != session) return false;
    entry.second->unwanted.store(true, std::memory_order_relaxed);
    return true;
  });
}

KeptProgramsRef Programs::Keep() const {
  auto kept = kept_ == nullptr ? std::make_shared<KeptPrograms>() : std::make_shared<KeptPrograms>(*kept_);
  for (const auto& [id, program] : programs_) {
    if (program->loaded != nullptr && !program->kept_name.empty()) (*kept)[program->kept_name] = program->loaded;
  }
  return kept;
}

ProgramRef Programs::Find(ExecutableId id) const {
  auto it = programs_.find(id);
  return it == programs_.end() ? nullptr : it->second;
}

void Programs::Describe(const v1::Describe& command) {
  const ProgramRef program = Find(ExecutableId(command.executable()));
  absl::Status status;
  std::shared_ptr<device::LoadedProgram> loaded;
  if (program == nullptr) {
    status = absl::NotFoundError(absl::StrCat(ToString(ExecutableId(command.executable())), " is not loaded on this host"));
  } else if (program->loaded == nullptr) {
    status = program->pending ? absl::UnavailableError("the program is still being compiled") : program->error;
  } else {
    loaded = program->loaded;
  }
  // Producing the text can take long, so it runs off the strand.
  pool_->Post([this, alive = context_->alive(), strand = context_->strand(), loaded, status, query = command.query(),
               what = command.what()] {
    auto described = std::make_shared<v1::Described>();
    described->set_query(query);
    absl::Status result = status;
    if (result.ok() && what == v1::Describe::PROGRAM_TEXT) {
      absl::StatusOr<std::string> text = loaded->Text();
      result = text.status();
      if (text.ok()) described->set_text(*std::move(text));
    } else if (result.ok() && what == v1::Describe::PROGRAM_MODULE) {
      absl::StatusOr<std::string> module = loaded->Module();
      result = module.status();
      if (module.ok()) described->set_module(*std::move(module));
    } else if (result.ok() && what == v1::Describe::COST_ANALYSIS) {
      absl::StatusOr<std::map<std::string, double>> costs = loaded->CostAnalysis();
      result = costs.status();
      if (costs.ok()) described->mutable_numbers()->insert(costs->begin(), costs->end());
    } else if (result.ok()) {
      result =
          absl::UnimplementedError(absl::StrCat("a worker cannot describe aspect ", static_cast<int>(what), " of a program"));
    }
    if (!result.ok()) *described->mutable_status() = ToProto(result);
    strand->Post([this, alive, described] {
      if (!alive.expired()) *context_->outbox().Add()->mutable_described() = std::move(*described);
    });
  });
}

}  // namespace pw::worker
