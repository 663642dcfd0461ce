// pathways-worker: owns the accelerators of one host. Wiring only; worker/ and device/ have the substance.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/clock.h"
#include "pathways/base/flags.h"
#include "pathways/base/log.h"
#include "pathways/base/machine_memory.h"
#include "pathways/base/open_files.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/stop_signal.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/bin/simulated_hosts.h"
#include "pathways/device/pjrt/runtime.h"
#include "pathways/net/asio_transport.h"
#include "pathways/worker/controller_link.h"

namespace {

struct Options {
  std::string controller;
  std::string island = "island0";
  std::string host_name;
  std::string plugin;
  std::vector<std::string> plugin_options;
  int devices = 0;
  int most_hosts = 8;
  int most_devices = 0;
  std::string listen;
  std::string listen_lanes;
  std::string advertise;
  std::string compile_cache;
  int64_t compile_cache_bytes = int64_t{4} << 30;
  int64_t memory_limit = 0;
  int64_t staging_limit = 0;
  int compile_threads = 2;
  bool checksum = false;
  bool shared_memory = true;
  bool exit_with_controller = false;
  bool exit_with_parent = false;
  int simulated_hosts = 0;
  int hosts_per_island = 0;
  double simulated_flops = 0;
  double simulated_bandwidth = 0;
  absl::Duration simulated_latency = absl::ZeroDuration();
  double simulated_uplink = 0;
  double simulated_ring = 0;
  absl::Duration simulated_ring_latency = absl::ZeroDuration();
};

void Declare(Options* options, pw::Flags* flags) {
  flags->Add("controller", &options->controller, "ADDRESS", "the controller's address for workers: HOST:PORT or unix:PATH");
  flags->Add("island", &options->island, "NAME", "hosts that name the same island share one fast interconnect");
  flags->Add("host-name", &options->host_name, "NAME", "how people call this host; default: its network name");
  flags->Add("plugin", &options->plugin, "PATH",
             "the device plugin, any PJRT .so; default: $PATHWAYS_PLUGIN, else libpjrt_cpu.so beside this program (../lib)");
  flags->Add("plugin-option", &options->plugin_options, "NAME=VALUE", "a create option for the plugin");
  flags->Add("devices", &options->devices, "N", "how many CPU devices to make (cpu plugin only); 0: what the plugin finds");
  flags->Add("most-hosts", &options->most_hosts, "N",
             "over how many hosts a computation of this one's devices may go (cpu plugin only); 1: this one alone");
  flags->Add("most-devices", &options->most_devices, "N", "how many devices those hosts have at most; 0: as many as this one");
  flags->Add("listen", &options->listen, "ADDRESS",
             "where other workers connect: HOST:PORT (port 0 picks a free one) or unix:PATH; default: chosen after the "
             "controller's address");
  flags->Add("listen-lanes", &options->listen_lanes, "ADDRESS",
             "where clients bring large arrays and get them: HOST:PORT or unix:PATH; default: beside --listen, at a free port");
  flags->Add("advertise", &options->advertise, "HOST",
             "the name under which others reach --listen and --listen-lanes; default: this host's network name");
  flags->Add("compile-cache", &options->compile_cache, "DIR",
             "a folder where compiled programs are kept between runs; default: none");
  flags->Add("compile-cache-bytes", &options->compile_cache_bytes, "BYTES",
             "the folder's size limit; the least recently used entries go");
  flags->Add("compile-threads", &options->compile_threads, "N", "how many programs compile at once");
  flags->Add("memory-limit", &options->memory_limit, "BYTES", "memory for arrays on each device; 0: what the device has");
  flags->Add("staging-limit", &options->staging_limit, "BYTES",
             "host memory for transfers under way; 0: half of the machine's memory");
  flags->Add(
      "shared-memory", &options->shared_memory,
      "hand large arrays to processes of this machine in shared memory; --no-shared-memory: as if they were on another one");
  flags->Add("checksum", &options->checksum, "protect transfers to other workers by checksums (CRC-32C)");
  flags->Add("exit-with-controller", &options->exit_with_controller,
             "stop when the controller is lost, instead of waiting for a new one");
  flags->Add("exit-with-parent", &options->exit_with_parent, "stop when the process that started this one ends");
  flags->Add("simulated-hosts", &options->simulated_hosts, "N",
             "be so many hosts, host0 and on, with --devices simulated devices each: programs are compiled for their shapes, "
             "results are zeros");
  flags->Add("hosts-per-island", &options->hosts_per_island, "N",
             "of --simulated-hosts: island0 has the first N, and so on; 0: all");
  flags->Add("simulated-flops", &options->simulated_flops, "N",
             "operations a second of a simulated device; 0: they take no time");
  flags->Add("simulated-bandwidth", &options->simulated_bandwidth, "BYTES",
             "a second, of a simulated device's memory; 0: likewise");
  flags->Add("simulated-latency", &options->simulated_latency, "DURATION", "from a simulated host to one of another island");
  flags->Add("simulated-uplink", &options->simulated_uplink, "BYTES",
             "a second, from a simulated host to those of other islands together; 0: they take no time");
  flags->Add("simulated-ring", &options->simulated_ring, "BYTES",
             "a second, from a simulated device to the next one while collectives go round a ring; 0: they take no time");
  flags->Add("simulated-ring-latency", &options->simulated_ring_latency, "DURATION", "of each step of such a ring");
}

// Not a flag: everybody on the machine can read command lines.
std::string Token() {
  const char* token = std::getenv("PATHWAYS_TOKEN");
  return token == nullptr ? "" : token;
}

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

absl::StatusOr<pw::device::pjrt::RuntimeOptions> RuntimeOptionsFrom(const Options& options) {
  pw::device::pjrt::RuntimeOptions result;
  result.plugin = options.plugin.empty() ? DefaultPlugin() : options.plugin;
  if (options.devices < 0) return absl::InvalidArgumentError("--devices must not be negative");
  if (options.devices > 0) result.options.push_back({"cpu_device_count", "", options.devices, true});
  for (const std::string& text : options.plugin_options) {
    const std::pair<std::string, std::string> kv = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (kv.first.empty() || !absl::StrContains(text, '='))
      return absl::InvalidArgumentError(absl::StrCat("--plugin-option wants NAME=VALUE, not '", text, "'"));
    int64_t number = 0;
    const bool is_number = absl::SimpleAtoi(kv.second, &number);
    result.options.push_back({kv.first, is_number ? "" : kv.second, number, is_number});
  }
  return result;
}

// Our CPU plugin runs programs over several processes, and is told beforehand of how many, and with how many devices at most.
void AddPeers(const Options& options, const std::string& listen, pw::device::pjrt::RuntimeOptions* runtime) {
  if (!absl::StrContains(runtime->plugin, "libpjrt_cpu.so") || options.most_hosts < 2) return;
  runtime->other_processes = options.most_hosts - 1;
  if (options.most_devices > 0) runtime->options.push_back({"peer_device_count", "", options.most_devices, true});
  runtime->options.push_back({"island", options.island, 0, false});
  if (absl::StartsWith(listen, "unix:")) return;  // all hosts are on this machine
  runtime->options.push_back({"network_address", options.advertise.empty() ? NetworkName() : options.advertise, 0, false});
}

// Workers of one machine meet on an abstract Unix socket, which leaves nothing behind; others on TCP.
std::string ListenAddress(const Options& options) {
  if (!options.listen.empty()) return options.listen;
  const std::string& c = options.controller;
  if (absl::StartsWith(c, "unix:") || absl::StrContains(c, "127.0.0.1") || absl::StrContains(c, "localhost")) {
    return absl::StrCat("unix:@pathways-worker-", getpid());
  }
  return "tcp:0.0.0.0:0";
}

std::string LaneAddress(const Options& options) {
  if (!options.listen_lanes.empty()) return options.listen_lanes;
  const std::string peers = ListenAddress(options);
  if (absl::StartsWith(peers, "unix:")) return absl::StrCat(peers, "-lanes");
  return absl::StrCat(peers.substr(0, peers.rfind(':')), ":0");
}

// "tcp:0.0.0.0:41234" means nothing to others.
std::string Advertised(const std::string& listening, const Options& options) {
  if (absl::StartsWith(listening, "unix:")) return listening;
  const std::string port = listening.substr(listening.rfind(':'));
  if (!options.advertise.empty()) return absl::StrCat("tcp:", options.advertise, port);
  return absl::StartsWith(listening, "tcp:0.0.0.0:") ? absl::StrCat("tcp:", NetworkName(), port) : listening;
}

pw::worker::LinkOptions LinkOptionsFrom(const Options& options) {
  pw::worker::LinkOptions link;
  link.controller = options.controller;
  link.token = Token();
  link.host_name = options.host_name.empty() ? NetworkName() : options.host_name;
  link.island = options.island;
  link.pid = getpid();
  link.exit_with_controller = options.exit_with_controller;
  return link;
}

// What compiled code depends on: the kind of the devices and the instructions that the CPU has.
std::string Machine(const pw::device::DeviceRuntime& runtime) {
  std::string text = runtime.devices().front().kind;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name") && !absl::StartsWith(line, "flags") && !absl::StartsWith(line, "Features"))
      continue;
    absl::StrAppend(&text, "\n", line);
    if (!absl::StartsWith(line, "model name")) break;  // the first CPU speaks for all
  }
  return text;
}

// A ring over several islands is as slow as its slowest link, which is one between islands.
pw::device::DeviceSpeed SimulatedSpeed(const Options& options) {
  pw::device::DeviceSpeed speed;
  speed.flops_per_second = options.simulated_flops;
  speed.bytes_per_second = options.simulated_bandwidth;
  speed.ring = {options.simulated_ring, options.simulated_ring_latency};
  speed.between = {options.simulated_uplink, std::max(options.simulated_latency, options.simulated_ring_latency)};
  const double inside = options.simulated_ring;  // 0: no limit
  if (inside > 0 && (options.simulated_uplink <= 0 || inside < options.simulated_uplink)) speed.between.bytes_per_second = inside;
  return speed;
}

absl::Status RunSimulated(const Options& options, pw::StopSignal* stop) {
  PW_ASSIGN_OR_RETURN(const auto runtime_options, RuntimeOptionsFrom(options));
  pw::SimulatedHostsOptions simulated;
  simulated.controller = options.controller;
  simulated.token = Token();
  simulated.hosts = options.simulated_hosts;
  simulated.hosts_per_island = options.hosts_per_island > 0 ? options.hosts_per_island : options.simulated_hosts;
  if (options.devices > 0) simulated.devices = options.devices;
  simulated.device_memory_bytes = options.memory_limit;
  simulated.staging_bytes = options.staging_limit > 0 ? options.staging_limit : pw::HalfOfMemory();
  simulated.exit_with_controller = options.exit_with_controller;
  simulated.speed = SimulatedSpeed(options);
  simulated.latency = options.simulated_latency;
  simulated.uplink_bytes_per_second = options.simulated_uplink;
  simulated.make_compiler = [plugin = runtime_options.plugin](int devices) {
    return pw::device::pjrt::MakeRuntime({.plugin = plugin, .options = {{"cpu_device_count", "", devices, true}}});
  };
  pw::SimulatedHosts hosts(std::move(simulated));
  absl::Status outcome;
  PW_RETURN_IF_ERROR(hosts.Start([&outcome](const absl::Status& status) {
    outcome = status;
    kill(getpid(), SIGTERM);  // wakes main, below
  }));
  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "worker: stopping: " << reason;
  hosts.Stop(reason, absl::Seconds(2));
  if (!outcome.ok()) std::fprintf(stderr, "pathways-worker: %s\n", std::string(outcome.message()).c_str());
  std::fflush(nullptr);
  std::_Exit(outcome.ok() ? 0 : 1);
}

absl::Status Run(const Options& options, pw::StopSignal* stop) {
  if (options.controller.empty())
    return absl::InvalidArgumentError("--controller is needed: the address at which the controller takes workers");
  if (options.simulated_hosts < 0) return absl::InvalidArgumentError("--simulated-hosts must not be negative");
  if (options.simulated_hosts > 0) return RunSimulated(options, stop);
  if (options.compile_threads < 1) return absl::InvalidArgumentError("--compile-threads must be at least 1");
  PW_ASSIGN_OR_RETURN(auto runtime_options, RuntimeOptionsFrom(options));
  AddPeers(options, ListenAddress(options), &runtime_options);
  PW_ASSIGN_OR_RETURN(const auto runtime, pw::device::pjrt::MakeRuntime(runtime_options));

  pw::SteadyClock clock;
  pw::TimerQueue timers(&clock);
  pw::ThreadPool executor("pw-executor", 1);
  pw::ThreadPool copy_pool("pw-copy", std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()), 1, 4));
  pw::ThreadPool compile_pool("pw-compile", options.compile_threads);
  pw::Strand strand(&executor);
  pw::net::AsioTransport transport;
  int next_launch_id = 0;

  pw::worker::Environment environment;
  environment.runtime = runtime.get();
  environment.strand = &strand;
  environment.clock = &clock;
  environment.compile_pool = &compile_pool;
  environment.copy_pool = &copy_pool;
  environment.compile_cache =
      std::make_shared<pw::worker::CompileCache>(options.compile_cache, options.compile_cache_bytes, Machine(*runtime));
  environment.transport = &transport;
  environment.next_launch_id = &next_launch_id;
  environment.limits.device_memory_bytes = options.memory_limit;
  environment.checksum = options.checksum;
  environment.shares_memory = options.shared_memory;
  environment.limits.staging_bytes = options.staging_limit > 0 ? options.staging_limit : pw::HalfOfMemory();

  std::atomic<pw::worker::ControllerLink*> link_for_peers{nullptr};
  PW_ASSIGN_OR_RETURN(const auto listener,
                      transport.Listen(ListenAddress(options), [&](std::unique_ptr<pw::net::Connection> connection) {
                        if (auto* link = link_for_peers.load()) link->AcceptPeer(std::move(connection));
                      }));
  PW_ASSIGN_OR_RETURN(const auto lane_listener,
                      transport.Listen(LaneAddress(options), [&](std::unique_ptr<pw::net::Connection> connection) {
                        if (auto* link = link_for_peers.load()) link->AcceptLane(std::move(connection));
                      }));
  pw::worker::LinkOptions link_options = LinkOptionsFrom(options);
  link_options.data_address = Advertised(listener->address(), options);
  link_options.lane_address = Advertised(lane_listener->address(), options);
  absl::Status outcome;
  pw::worker::ControllerLink link(environment, &strand, &timers, link_options, [&outcome](const absl::Status& status) {
    outcome = status;
    kill(getpid(), SIGTERM);  // wakes main, below
  });
  link_for_peers.store(&link);
  link.Start();

  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "worker: stopping: " << reason;
  std::promise<void> stopped;
  link.Stop(reason, [&] { stopped.set_value(); });
  // A computation that holds the strand up (a program blocked inside the device runtime) must not keep the process.
  stopped.get_future().wait_for(std::chrono::seconds(2));
  if (!outcome.ok()) std::fprintf(stderr, "pathways-worker: %s\n", std::string(outcome.message()).c_str());
  // Devices may still be at work for arrays that are gone. Waiting for them, or for a compilation, helps nobody.
  std::fflush(nullptr);
  std::_Exit(outcome.ok() ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);  // XLA's chatter; what matters comes as a status
  Options options;
  pw::Flags flags("pathways-worker",
                  "Owns the accelerators of one host: joins the controller, compiles and runs its programs, holds its arrays, "
                  "and exchanges data with "
                  "the other workers.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Run(options, &stop);
  std::fprintf(stderr, "pathways-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}
