#include "pathways/bin/device_host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/memory/machine_memory.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/growing_pool.h"
#include "pathways/bin/examine_machine.h"
#include "pathways/device/pjrt/runtime.h"
#include "pathways/worker/execute/compiled_for.h"

namespace pw {
namespace {

constexpr int kDiskThreads = 4;

std::string NetworkName() {
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string DefaultPlugin() {
  if (const char* named = std::getenv("PATHWAYS_PLUGIN"); named != nullptr && *named != '\0') return named;
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  const std::string self(path, n > 0 ? static_cast<size_t>(n) : 0);
  const std::string folder = self.substr(0, self.rfind('/'));
  for (const char* place : {"/../lib/libpjrt_cpu.so", "/libpjrt_cpu.so", "/../plugins/pjrt_cpu/libpjrt_cpu.so"}) {
    if (access((folder + place).c_str(), R_OK) == 0) return folder + place;
  }
  return folder + "/../lib/libpjrt_cpu.so";
}

absl::StatusOr<device::pjrt::RuntimeOptions> RuntimeOptionsFrom(const DeviceHostOptions& options) {
  device::pjrt::RuntimeOptions result;
  result.plugin = PluginPath(options);
  result.launch_at_once = options.in_user_process && device::pjrt::IsOurCpuPlugin(result.plugin);
  if (options.devices < 0) return absl::InvalidArgumentError("--devices must not be negative");
  if (options.devices > 0) result.options.push_back({"cpu_device_count", int64_t{options.devices}});
  for (const std::string& text : options.device_options) {
    PW_ASSIGN_OR_RETURN(result.options.emplace_back(), device::pjrt::ParseClientOption(result.plugin, text));
  }
  return result;
}

// Adds options for programs over several processes: those of the island's world, or those that programs will name. Only our CPU plugin
// can do the latter; it must know the largest number of processes, and of their devices.
void AddPeers(const DeviceHostOptions& options, const std::string& listen, std::optional<device::World> world,
              device::pjrt::RuntimeOptions* runtime) {
  const bool ours = device::pjrt::IsOurCpuPlugin(runtime->plugin);
  if (world.has_value()) {
    runtime->world = std::move(world);
    if (ours) runtime->options.push_back({"world", std::string("key_value")});
  } else if (ours && options.most_hosts > 1) {
    runtime->other_processes = options.most_hosts - 1;
    if (options.most_devices > 0) runtime->options.push_back({"peer_device_count", int64_t{options.most_devices}});
  }
  if (!ours || (runtime->other_processes == 0 && !runtime->world.has_value())) return;
  runtime->options.push_back({"island", options.island});
  if (absl::StartsWith(listen, "unix:")) return;  // all hosts are on this machine
  runtime->options.push_back({"network_address", options.advertise.empty() ? NetworkName() : options.advertise});
}

// Returns the address for other workers: an abstract Unix socket, which leaves no file, if the controller is on this machine;
// else TCP.
std::string ListenAddress(const DeviceHostOptions& options) {
  if (!options.listen.empty()) return options.listen;
  const std::string& c = options.controller;
  if (absl::StartsWith(c, "unix:") || absl::StrContains(c, "127.0.0.1") || absl::StrContains(c, "localhost")) {
    return absl::StrCat("unix:@pathways-worker-", getpid());
  }
  return "tcp:0.0.0.0:0";
}

std::string LaneAddress(const DeviceHostOptions& options) {
  if (!options.listen_lanes.empty()) return options.listen_lanes;
  const std::string peers = ListenAddress(options);
  if (absl::StartsWith(peers, "unix:")) return absl::StrCat(peers, "-lanes");
  return absl::StrCat(peers.substr(0, peers.rfind(':')), ":0");
}

// Returns the address that other machines use: "tcp:0.0.0.0:41234" means nothing to them.
std::string Advertised(const std::string& listening, const DeviceHostOptions& options) {
  if (absl::StartsWith(listening, "unix:")) return listening;
  const std::string port = listening.substr(listening.rfind(':'));
  if (!options.advertise.empty()) return absl::StrCat("tcp:", options.advertise, port);
  return absl::StartsWith(listening, "tcp:0.0.0.0:") ? absl::StrCat("tcp:", NetworkName(), port) : listening;
}

std::string HostName(const DeviceHostOptions& options) { return options.host_name.empty() ? NetworkName() : options.host_name; }

worker::LinkOptions LinkOptionsFrom(const DeviceHostOptions& options, const identity::Credentials& credentials) {
  worker::LinkOptions link;
  link.controller = options.controller;
  link.token = credentials.token.Now();
  link.tls = credentials.tls;
  link.host_name = HostName(options);
  link.island = options.island;
  link.pid = getpid();
  link.exit_with_controller = options.exit_with_controller;
  return link;
}

std::vector<std::string> KindsOf(const device::DeviceRuntime& runtime) {
  std::vector<std::string> kinds;
  for (const auto& device : runtime.devices()) kinds.push_back(device.kind);
  return kinds;
}

}  // namespace

void DeclareDevices(DeviceHostOptions* options, Flags* flags) {
  flags->Add("plugin", &options->plugin, "PATH",
             "the device plugin, any PJRT .so; default: $PATHWAYS_PLUGIN, else libpjrt_cpu.so beside this program (../lib)");
  flags->Add("device-option", &options->device_options, "NAME=VALUE",
             "an option with which the plugin is created, such as memory_fraction=0.5; 'pathways worker --device-options help' "
             "lists them");
  flags->Add("devices", &options->devices, "N", "number of devices (cpu plugin only); 0: the plugin's own choice");
  flags->Add(
      "compile-cache", &options->compile_cache, "DIR",
      "a folder that keeps compiled programs between runs; only the worker's user may be able to write there; default: none");
  flags->Add("compile-cache-bytes", &options->compile_cache_bytes, "BYTES",
             "size limit of that folder; the least recently used entries are deleted");
  flags->Add("compile-threads", &options->compile_threads, "N", "how many programs of one user compile at once");
  flags->Add("memory-limit", &options->memory_limit, "BYTES", "memory for arrays on each device; 0: all of the device's");
  flags->Add("staging-limit", &options->staging_limit, "BYTES",
             "host memory for transfers under way; 0: half of the machine's memory");
  flags->Add("host-python", &options->host_python, "PATH",
             "a Python interpreter with the packages of the clients' programs: it runs their Python functions on this host "
             "(jax.experimental.colocated_python), as --python-user; default: such functions are refused");
  flags->Add("python-user", &options->python_rights.user, "NAME",
             "run those functions as this user (default: that of this process), who must be able to read the interpreter and its "
             "packages; needs root");
  flags->Add("python-memory", &options->python_rights.memory_bytes, "BYTES",
             "the most private memory of each process that runs them; 0: no limit");
  flags->Add("python-processes", &options->python_rights.processes, "N",
             "the most processes and threads of --python-user on this host; 0: no limit");
  flags->Add("python-seconds", &options->python_rights.seconds, "SECONDS",
             "the most time of a call of such a function; its process is ended then; 0: no limit");
  flags->Add("shared-memory", &options->shared_memory,
             "hand large arrays to other processes of this machine in shared memory; --no-shared-memory: send them as to another "
             "machine");
}

void DeclarePlace(DeviceHostOptions* options, Flags* flags) {
  flags->Add("controller", &options->controller, "ADDRESS", "the controller's address for workers: HOST:PORT or unix:PATH");
  flags->Add("island", &options->island, "NAME", "hosts that name the same island share one fast interconnect");
  flags->Add("host-name", &options->host_name, "NAME", "a name for this host; default: its network name");
  flags->Add("most-hosts", &options->most_hosts, "N",
             "the largest number of hosts of one computation (cpu plugin only); 1: no computation over several hosts");
  flags->Add(
      "island-hosts", &options->island_hosts, "N",
      "the number of hosts of the island, which find each other before any of them joins, and stay together: device plugins "
      "other than cpu need that to compute over several hosts. All workers of the island must say the same; 0 or 1: each host is "
      "by itself, and the cpu plugin's hosts may come and go");
  flags->Add("most-devices", &options->most_devices, "N",
             "the largest number of devices of one such host; 0: as many as this host has");
  flags->Add("listen", &options->listen, "ADDRESS",
             "where other workers connect: HOST:PORT (port 0 picks a free one) or unix:PATH; default: of the same kind as "
             "--controller");
  flags->Add("listen-lanes", &options->listen_lanes, "ADDRESS",
             "where clients connect to send and fetch large arrays: HOST:PORT or unix:PATH; default: a free port of the host of "
             "--listen");
  flags->Add("advertise", &options->advertise, "HOST",
             "the name under which others reach --listen and --listen-lanes; default: this host's network name");
  identity::DeclareCredentials(&options->credentials, "a join", flags);
  flags->Add("checksum", &options->checksum, "protect transfers to other workers by checksums (CRC-32C)");
  flags->Add(
      "exit-with-controller", &options->exit_with_controller,
      "stop when the controller is lost and no other one has come within its --controller-grace, instead of waiting for one");
}

worker::WorldOptions WorldOptionsFrom(const DeviceHostOptions& options, const identity::Credentials& credentials) {
  return {options.controller, credentials.token.Now(), HostName(options),
          options.island,     options.island_hosts,    options.exit_with_controller};
}

std::string PluginPath(const DeviceHostOptions& options) { return options.plugin.empty() ? DefaultPlugin() : options.plugin; }

DeviceHost::Finished StopProcess(absl::Status* outcome) {
  return [outcome](const absl::Status& status) {
    *outcome = status;
    kill(getpid(), SIGTERM);
  };
}

void EndProcess(const std::string& program, const absl::Status& outcome) {
  if (!outcome.ok()) std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(outcome.message()).c_str());
  std::fflush(nullptr);
  std::_Exit(outcome.ok() ? 0 : 1);
}

DeviceHost::DeviceHost(DeviceHostOptions options, const Environment& environment)
    : options_(std::move(options)),
      environment_(environment),
      copy_pool_("pw-copy", std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1, 4)),
      compile_pool_("pw-compile", options_.compile_threads + 1),  // one user's programs cannot take all threads
      disk_("pw-disk", kDiskThreads),
      python_threads_(std::make_shared<GrowingPool>("pw-python")),
      strand_(environment.executor),
      machine_(std::make_shared<const MachineExaminer>(
          MachineExaminer::Environment{{options_.compile_cache, options_.persistence_directory, options_.users_directory},
                                       &disk_,
                                       environment.credentials.tls})) {}

DeviceHost::~DeviceHost() = default;

absl::StatusOr<std::unique_ptr<DeviceHost>> DeviceHost::Create(DeviceHostOptions options, const Environment& environment) {
  if (options.compile_threads < 1) return absl::InvalidArgumentError("--compile-threads must be at least 1");
  PW_RETURN_IF_ERROR(worker::CheckRights(options.python_rights));
  if (options.island_hosts < 0) return absl::InvalidArgumentError("--island-hosts must not be negative");
  PW_ASSIGN_OR_RETURN(storage::ObjectStores object_stores, ObjectStoresFrom(options.objects));
  PW_ASSIGN_OR_RETURN(auto runtime_options, RuntimeOptionsFrom(options));
  std::optional<device::World> world;
  if (environment.world != nullptr) {
    PW_ASSIGN_OR_RETURN(world, environment.world->Form());
  }
  AddPeers(options, ListenAddress(options), std::move(world), &runtime_options);
  std::unique_ptr<DeviceHost> host(new DeviceHost(std::move(options), environment));
  host->object_stores_ = std::move(object_stores);
  if (host->options_.in_user_process) runtime_options.launches = host->launches_ = std::make_shared<device::pjrt::Launches>();
  PW_ASSIGN_OR_RETURN(host->runtime_, device::pjrt::MakeRuntime(runtime_options));
  return host;
}

absl::StatusOr<std::unique_ptr<net::Listener>> DeviceHost::Accept(
    net::Transport* transport, const std::string& address,
    void (worker::ControllerLink::*accept)(std::unique_ptr<net::Connection>)) {
  return transport->Listen(address, [this, accept](std::unique_ptr<net::Connection> connection) {
    if (auto* link = link_for_peers_.load()) (link->*accept)(std::move(connection));
  });
}

worker::Environment DeviceHost::ForWorker() {
  worker::Environment worker;
  worker.runtime = runtime_.get();
  worker.strand = &strand_;
  worker.clock = environment_.clock;
  worker.timers = environment_.timers;
  worker.compile_pool = &compile_pool_;
  worker.compiles_of_one = options_.compile_threads;
  worker.copy_pool = &copy_pool_;
  worker.disk = &disk_;
  worker.client_files = storage::Places(
      storage::Roots(options_.persistence_directory, options_.object_directory, options_.users_directory), object_stores_);
  worker.compile_cache = std::make_shared<worker::CompileCache>(
      options_.compile_cache, options_.compile_cache_bytes,
      worker::CompiledFor(KindsOf(*runtime_), PluginPath(options_), options_.device_options));
  worker.transport = environment_.transport;
  worker.python = {options_.host_python, absl::StrCat("host '", HostName(options_), "' of island '", options_.island, "'"),
                   environment_.lanes, python_threads_, options_.python_rights};
  worker.next_launch_id = &next_launch_id_;
  worker.limits.device_memory_bytes = options_.memory_limit;
  worker.limits.staging_bytes = options_.staging_limit > 0 ? options_.staging_limit : HalfOfMemory();
  worker.checksum = options_.checksum;
  worker.shares_memory = options_.shared_memory;
  worker.examine_machine = [machine = machine_] { return machine->Examine(); };
  worker.native_stacks = environment_.native_stacks;
  return worker;
}

absl::Status DeviceHost::Join(Finished finished) {
  worker::LinkOptions link = LinkOptionsFrom(options_, environment_.credentials);
  PW_ASSIGN_OR_RETURN(peers_, Accept(environment_.transport, ListenAddress(options_), &worker::ControllerLink::AcceptPeer));
  link.data_address = Advertised(peers_->address(), options_);
  if (environment_.lanes != nullptr) {
    PW_ASSIGN_OR_RETURN(lanes_, Accept(environment_.lanes, LaneAddress(options_), &worker::ControllerLink::AcceptLane));
    link.lane_address = Advertised(lanes_->address(), options_);
  }
  link_ = std::make_unique<worker::ControllerLink>(ForWorker(), &strand_, environment_.timers, link, std::move(finished));
  link_for_peers_.store(link_.get());
  link_->Start();
  return absl::OkStatus();
}

// Waits at most `patience`: a computation that blocks the strand inside the device runtime must not keep the process.
void DeviceHost::Stop(const std::string& reason, absl::Duration patience) {
  auto stopped = std::make_shared<std::promise<void>>();
  link_->Stop(reason, [stopped] { stopped->set_value(); });
  stopped->get_future().wait_for(absl::ToChronoMilliseconds(patience));
}

}  // namespace pw
