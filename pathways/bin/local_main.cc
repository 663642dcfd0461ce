// pathways-local: a cluster of one host in one process, for the jax program that starts it. Front door, controller and host exchange
// messages in memory, on one thread. Wiring only.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/clock.h"
#include "pathways/base/flags.h"
#include "pathways/base/log.h"
#include "pathways/base/open_files.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/stop_signal.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/bin/cluster_flags.h"
#include "pathways/bin/device_host.h"
#include "pathways/bin/front_door.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/identity/credentials.h"
#include "pathways/net/asio_transport.h"
#include "pathways/net/memory_transport.h"
#include "pathways/session/service.h"

namespace {

constexpr char kWorkersAddress[] = "tcp:controller:1";

struct Options {
  pw::ClusterFlags cluster;
  pw::DeviceHostOptions host;
  pw::FrontDoorOptions door;
  std::string listen_clients;
  std::string tls = "on";
  bool exit_with_parent = false;
};

void Declare(Options* options, pw::Flags* flags) {
  pw::DeclareFrontDoor(&options->door, flags);
  flags->Add("listen-clients", &options->listen_clients, "ADDRESS",
             "where programs by the PJRT door, C++ programs and operators (pathways status) connect: HOST:PORT or unix:PATH; default: nowhere");
  flags->Add("tls", &options->tls, "on|off", "off: --listen-clients may be HOST:PORT, where everybody is let in and nothing is encrypted");
  pw::DeclareDevices(&options->host, flags);
  flags->Add("island", &options->host.island, "NAME", "a name for the island of this one host");
  flags->Add("host-name", &options->host.host_name, "NAME", "a name for this host; default: its network name");
  pw::DeclareCluster(&options->cluster, flags);
  flags->Add("exit-with-parent", &options->exit_with_parent, "stop when the process that started this one ends");
}

// Serves clients that do not enter by this process's front door: the PJRT door, C++ programs, operators.
absl::StatusOr<std::shared_ptr<pw::session::SessionService>> ListenForClients(const std::string& address, pw::net::Transport* transport,
                                                                              pw::controller::ClusterImpl* cluster, pw::Timers* timers) {
  pw::session::SessionService::Options sessions;
  sessions.make_key = pw::RandomKey;
  auto service = pw::session::SessionService::Create(std::move(sessions), {cluster, timers});
  PW_RETURN_IF_ERROR(service->Listen(transport, address).status());
  return service;
}

// Returns where those clients bring and fetch large arrays: beside the address where they connect.
std::string LanesBeside(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return absl::StrCat(address, "-lanes");
  return absl::StrCat(address.substr(0, address.rfind(':')), ":0");
}

absl::Status Serve(Options options, pw::StopSignal* stop) {
  options.cluster.cluster.expect_hosts = 1;
  // The host cannot be lost without the controller. Silence means that the thread of both was busy.
  options.cluster.cluster.heartbeat_limit = absl::Hours(24);
  PW_ASSIGN_OR_RETURN(const pw::controller::ClusterOptions cluster_options, pw::ClusterOptionsFrom(options.cluster));
  options.host.controller = kWorkersAddress;
  options.host.listen = "unix:@host";  // of the network in memory: nobody else can connect
  options.host.listen_lanes = LanesBeside(options.listen_clients);

  pw::SteadyClock clock;
  pw::net::MemoryNetwork network;
  std::shared_ptr<pw::controller::ClusterImpl> cluster;
  std::shared_ptr<pw::session::SessionService> clients;
  std::unique_ptr<pw::net::AsioTransport> to_clients;  // null: none but by the front door
  std::unique_ptr<pw::DeviceHost> host;
  pw::ThreadPool executor("pw-local", 1);
  pw::TimerQueue timers(&clock);
  pw::net::MemoryTransport at_controller(&network, &executor), at_host(&network, &executor);
  cluster = pw::controller::ClusterImpl::Create(cluster_options, {&executor, &timers, &clock});
  PW_RETURN_IF_ERROR(cluster->Listen(&at_controller, kWorkersAddress).status());
  if (!options.listen_clients.empty() && !absl::StartsWith(options.listen_clients, "unix:")) {
    if (options.tls != "off") {
      return absl::InvalidArgumentError(
          "--listen-clients wants unix:PATH: this process has no certificates. --tls off lets in whoever reaches the address, without encryption");
    }
    PW_LOG_WARNING << pw::identity::TlsIsOff(options.listen_clients);
  }
  if (!options.listen_clients.empty()) to_clients = std::make_unique<pw::net::AsioTransport>();
  PW_ASSIGN_OR_RETURN(host, pw::DeviceHost::Create(options.host, {&executor, &clock, &timers, &at_host, to_clients.get(), {}}));
  absl::Status outcome;
  PW_RETURN_IF_ERROR(host->Join(pw::StopProcess(&outcome)));
  if (to_clients != nullptr) {
    PW_ASSIGN_OR_RETURN(clients, ListenForClients(options.listen_clients, to_clients.get(), cluster.get(), &timers));
  }
  PW_ASSIGN_OR_RETURN(auto door, pw::FrontDoor::Open(options.door, cluster.get()));
  PW_LOG_INFO << "local cluster: jax programs connect to " << door->address();

  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "local cluster: stopping: " << reason;
  door = nullptr;
  host->Stop(reason, absl::Seconds(2));
  pw::EndProcess("pathways-local", outcome);
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("GRPC_VERBOSITY", "NONE", 0);     // its complaints repeat, less clearly, what our errors say
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);  // XLA's chatter; what matters comes as a status
  Options options;
  pw::Flags flags("pathways-local",
                  "A cluster of one host in one process: the accelerators of this machine, for jax programs of this machine. The package starts one "
                  "for a program that names no cluster.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Serve(options, &stop);
  std::fprintf(stderr, "pathways-local: %s\n", std::string(status.message()).c_str());
  return 2;  // bad flags, an address in use, a device plugin that cannot be loaded: nothing was served
}
