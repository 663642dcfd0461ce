// pathways-worker: owns the accelerators of one host. Wiring only; worker/ and device/ have the substance.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/memory/machine_memory.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/process/open_files.h"
#include "pathways/base/process/stop_signal.h"
#include "pathways/base/process/thread_stacks.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/bin/device_host.h"
#include "pathways/bin/metrics_flags.h"
#include "pathways/bin/simulated_hosts.h"
#include "pathways/bin/start_anew.h"
#include "pathways/device/pjrt/client_option.h"
#include "pathways/device/pjrt/runtime.h"
#include "pathways/http/server.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/worker/world_link.h"

namespace {

struct Options {
  pw::DeviceHostOptions host;
  pw::MetricsFlags metrics;
  int exit_with_parent = 0;  // a process id
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
  options->host.most_hosts = 8;
  pw::DeclarePlace(&options->host, flags);
  pw::DeclareDevices(&options->host, flags);
  pw::DeclareMetrics(&options->metrics, flags);
  flags->Add(
      "persistence-directory", &options->host.persistence_directory, "DIR",
      "clients of this process's user, and operators, may have arrays saved below this folder and loaded from it; default: none");
  flags->Add(
      "users-directory", &options->host.users_directory, "DIR",
      "the same for the other users of the cluster; {user} in it stands for the user, and keeps them apart; default: none");
  flags->Add("object-directory", &options->host.object_directory, "DIR",
             "keeps arrays that clients save to gs://BUCKET/OBJECT, as DIR/gs/BUCKET/OBJECT, or DIR/users/USER/gs/BUCKET/OBJECT; "
             "default: "
             "such saves fail");
  pw::DeclareObjects(&options->host.objects, flags);
  flags->Add("exit-with-parent", &options->exit_with_parent, "PID",
             "stop when this process, which has started this one, ends; 0: no");
  flags->Add("simulated-hosts", &options->simulated_hosts, "N",
             "simulate this many hosts (host0, host1, ...) with --devices devices each: programs are compiled for their "
             "shapes, results are zeros");
  flags->Add("hosts-per-island", &options->hosts_per_island, "N",
             "of --simulated-hosts: island0 has the first N, island1 the next N; 0: one island has all");
  flags->Add("simulated-flops", &options->simulated_flops, "N",
             "operations a second of a simulated device; 0: they take no time");
  flags->Add("simulated-bandwidth", &options->simulated_bandwidth, "BYTES",
             "bytes a second of a simulated device's memory; 0: access takes no time");
  flags->Add("simulated-latency", &options->simulated_latency, "DURATION",
             "latency between simulated hosts of different islands");
  flags->Add("simulated-uplink", &options->simulated_uplink, "BYTES",
             "bytes a second from a simulated host to all other islands together; 0: they take no time");
  flags->Add("simulated-ring", &options->simulated_ring, "BYTES",
             "bytes a second from a simulated device to its neighbour in the ring of a collective; 0: they take no time");
  flags->Add("simulated-ring-latency", &options->simulated_ring_latency, "DURATION", "latency of each step of such a ring");
}

// Returns the speeds of simulated devices. A ring over several islands is as slow as its slowest link, which is between islands.
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

// The host of this process. It starts on a thread of its own while main waits for the end of the process, because its devices may have to
// wait for the other hosts of the island.
struct OneHost {
  std::shared_ptr<pw::worker::WorldLink> world;  // null: the island is no world. Set before the start
  std::unique_ptr<pw::DeviceHost> host;          // used by the start alone, as the next
  std::unique_ptr<pw::http::Server> metrics;
  std::atomic<pw::DeviceHost*> joined = nullptr;
  std::atomic<bool> world_is_over = false;
  std::atomic<bool> stopping = false;

  absl::Status Start(const Options& options, const pw::DeviceHost::Environment& environment, pw::DeviceHost::Finished finished) {
    PW_ASSIGN_OR_RETURN(host, pw::DeviceHost::Create(options.host, environment));
    PW_RETURN_IF_ERROR(host->Join(std::move(finished)));
    joined.store(host.get());
    PW_ASSIGN_OR_RETURN(metrics, pw::ServeMetrics(options.metrics, environment.credentials.tls,
                                                  [this](auto done) { host->GetMetrics(std::move(done)); }));
    return absl::OkStatus();
  }
  // A device runtime cannot enter another world, so the process starts anew. Wakes main for that.
  void OnWorldOver(const std::string& why) {
    PW_LOG_WARNING << "this worker frees everything, and starts anew: " << why;
    world_is_over.store(true);
    kill(getpid(), SIGTERM);
  }
  void Stop(const std::string& reason, absl::Duration patience) {
    const bool anew = world_is_over.load();
    stopping.store(true);
    if (pw::DeviceHost* const there = joined.load(); there != nullptr) there->Stop(anew ? "it starts anew" : reason, patience);
    if (anew) pw::StartAnew();
    if (world != nullptr) world->Stop(reason);
  }
};

// Returns the stacks of this process's threads, with the names that this program's own file has.
std::string Stacks() { return pw::StacksOfThreads(absl::Symbolize); }

// Waits until the process should stop, then ends it.
template <class Hosts>
[[noreturn]] void WaitAndStop(const Options& options, pw::StopSignal* stop, Hosts* hosts, const absl::Status* outcome) {
  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "worker: stopping: " << reason;
  hosts->Stop(reason, absl::Seconds(2));
  pw::EndProcess("pathways-worker", *outcome);
}

absl::Status RunSimulated(const Options& options, pw::StopSignal* stop) {
  if (!options.metrics.listen.empty())
    return absl::InvalidArgumentError(
        "--listen-metrics is for real hosts, not for --simulated-hosts: read the metrics of their controller");
  pw::SimulatedHostsOptions simulated;
  simulated.controller = options.host.controller;
  PW_ASSIGN_OR_RETURN(simulated.credentials, pw::identity::CredentialsFor(options.host.controller, options.host.credentials));
  simulated.hosts = options.simulated_hosts;
  simulated.hosts_per_island = options.hosts_per_island > 0 ? options.hosts_per_island : options.simulated_hosts;
  if (options.host.devices != 0) simulated.devices = options.host.devices;
  simulated.device_memory_bytes = options.host.memory_limit;
  simulated.staging_bytes = options.host.staging_limit > 0 ? options.host.staging_limit : pw::HalfOfMemory();
  simulated.exit_with_controller = options.host.exit_with_controller;
  simulated.speed = SimulatedSpeed(options);
  simulated.latency = options.simulated_latency;
  simulated.uplink_bytes_per_second = options.simulated_uplink;
  simulated.make_compiler = [plugin = pw::PluginPath(options.host)](int devices) {
    return pw::device::pjrt::MakeRuntime({.plugin = plugin, .options = {{"cpu_device_count", int64_t{devices}}}});
  };
  pw::SimulatedHosts hosts(std::move(simulated));
  absl::Status outcome;
  PW_RETURN_IF_ERROR(hosts.Start(pw::StopProcess(&outcome)));
  WaitAndStop(options, stop, &hosts, &outcome);
}

absl::Status Run(const Options& options, pw::StopSignal* stop) {
  if (options.host.controller.empty())
    return absl::InvalidArgumentError("--controller is needed: the address at which the controller takes workers");
  if (options.simulated_hosts < 0) return absl::InvalidArgumentError("--simulated-hosts must not be negative");
  if (options.simulated_hosts > 0) return RunSimulated(options, stop);
  pw::SteadyClock clock;
  pw::TimerQueue timers(&clock);
  pw::ThreadPool executor("pw-executor", 1), for_world("pw-world", 1), starter("pw-start", 1);
  PW_ASSIGN_OR_RETURN(const pw::identity::Credentials credentials,
                      pw::identity::CredentialsFor(options.host.controller, options.host.credentials));
  pw::net::AsioTransport transport({.tls = credentials.tls});
  OneHost host;
  if (pw::IslandIsWorld(options.host)) {
    host.world =
        pw::worker::WorldLink::Create({&for_world, &clock, &timers, &transport}, pw::WorldOptionsFrom(options.host, credentials),
                                      [&host](const std::string& why) { host.OnWorldOver(why); });
  }
  absl::Status outcome;
  starter.Post([&] {
    const auto finished = pw::StopProcess(&outcome);
    const absl::Status started = host.Start(
        options, {&executor, &clock, &timers, &transport, &transport, credentials, host.world.get(), Stacks}, finished);
    if (!started.ok() && !host.stopping.load()) finished(started);
  });
  WaitAndStop(options, stop, &host, &outcome);
}

}  // namespace

int main(int argc, char** argv) {
  absl::InitializeSymbolizer(argv[0]);
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);  // hides XLA's log lines; its errors come as statuses
  Options options;
  pw::Flags flags("pathways-worker",
                  "Owns the accelerators of one host: joins the controller, compiles and runs its programs, holds its arrays, "
                  "and exchanges data with "
                  "the other workers.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  if (absl::c_linear_search(options.host.device_options, "help")) {
    std::fputs(pw::device::pjrt::ListOptions(pw::PluginPath(options.host)).c_str(), stdout);
    return 0;
  }
  const absl::Status status = Run(options, &stop);
  std::fprintf(stderr, "pathways-worker: %s\n", std::string(status.message()).c_str());
  return 1;
}
