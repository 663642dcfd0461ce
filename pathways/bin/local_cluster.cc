#include "pathways/bin/local_cluster.h"

#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/identity/credentials.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/session/service.h"

namespace pw {
namespace {

constexpr char kWorkersAddress[] = "tcp:controller:1";

// Returns INVALID_ARGUMENT if other machines could connect there: this process has no certificate to show them.
absl::Status CheckListenClients(const LocalClusterOptions& options) {
  if (options.listen_clients.empty() || absl::StartsWith(options.listen_clients, "unix:")) return absl::OkStatus();
  if (options.tls != "off") {
    return absl::InvalidArgumentError(
        "--listen-clients wants unix:PATH: this process has no certificates. --tls off lets in whoever reaches the address, "
        "without encryption");
  }
  PW_LOG_WARNING << identity::TlsIsOff(options.listen_clients);
  return absl::OkStatus();
}

// Returns the address of the lanes, on which clients in other processes send and fetch large arrays: beside `address`, where they
// connect.
std::string LanesBeside(const std::string& address) {
  if (absl::StartsWith(address, "unix:")) return absl::StrCat(address, "-lanes");
  return absl::StrCat(address.substr(0, address.rfind(':')), ":0");
}

// Set once: when the cluster has formed, or when the host has ended before that.
class Formed {
 public:
  Formed() : future_(promise_->future()) {}
  const Future<Unit>& future() const { return future_; }
  void Set(absl::StatusOr<Unit> value) {
    std::optional<Promise<Unit>> promise;
    {
      std::lock_guard<std::mutex> lock(mu_);
      promise.swap(promise_);
    }
    if (promise.has_value()) promise->Set(std::move(value));
  }

 private:
  std::mutex mu_;
  std::optional<Promise<Unit>> promise_ = std::optional<Promise<Unit>>(std::in_place);  // guarded by mu_
  const Future<Unit> future_;
};

}  // namespace

// Destroyed in reverse order: objects that post tasks, then the executor, then the objects that tasks use.
struct LocalCluster::Parts {
  SteadyClock clock;
  net::MemoryNetwork network;
  const std::shared_ptr<Formed> formed = std::make_shared<Formed>();
  std::shared_ptr<controller::ClusterImpl> cluster;
  std::shared_ptr<session::SessionService> clients;
  std::unique_ptr<net::AsioTransport> to_clients;  // null: no other process can connect
  std::unique_ptr<DeviceHost> host;
  HelpedThread executor{"pw-local"};
  TimerQueue timers{&clock};
  net::MemoryTransport at_controller{&network, &executor}, at_host{&network, &executor};

  absl::Status Start(LocalClusterOptions options, DeviceHost::Finished finished);
  absl::Status ListenForClients(const std::string& address);
};

// Serves clients in other processes: both doors, C++ programs, operators.
absl::Status LocalCluster::Parts::ListenForClients(const std::string& address) {
  session::SessionService::Options sessions;
  sessions.make_key = RandomKey;
  clients = session::SessionService::Create(std::move(sessions), {cluster.get(), &timers});
  return clients->Listen(to_clients.get(), address).status();
}

absl::Status LocalCluster::Parts::Start(LocalClusterOptions options, DeviceHost::Finished finished) {
  PW_RETURN_IF_ERROR(CheckListenClients(options));
  options.cluster.cluster.expect_hosts = 1;
  // The host cannot be lost without the controller. Silence means that the thread of both was busy.
  options.cluster.cluster.heartbeat_limit = absl::Hours(24);
  PW_ASSIGN_OR_RETURN(const controller::ClusterOptions cluster_options, ClusterOptionsFrom(options.cluster));
  options.host.controller = kWorkersAddress;
  options.host.listen = "unix:@host";  // an address of the network in memory: no other process can connect
  options.host.listen_lanes = LanesBeside(options.listen_clients);
  cluster = controller::ClusterImpl::Create(cluster_options, {&executor, &timers, &clock});
  PW_RETURN_IF_ERROR(cluster->Listen(&at_controller, kWorkersAddress).status());
  if (!options.listen_clients.empty()) to_clients = std::make_unique<net::AsioTransport>();
  PW_ASSIGN_OR_RETURN(host, DeviceHost::Create(options.host, {&executor, &clock, &timers, &at_host, to_clients.get(), {}}));
  cluster->WhenFormed([formed = formed] { formed->Set(Unit()); });
  PW_RETURN_IF_ERROR(host->Join([formed = formed, finished = std::move(finished)](const absl::Status& status) {
    formed->Set(status.ok() ? absl::UnavailableError("the host of the local cluster has left it") : status);
    finished(status);
  }));
  return to_clients == nullptr ? absl::OkStatus() : ListenForClients(options.listen_clients);
}

void DeclareLocalCluster(LocalClusterOptions* options, Flags* flags) {
  flags->Add("listen-clients", &options->listen_clients, "ADDRESS",
             "where programs of other processes by the PJRT door, C++ programs and operators (pathways status) connect: "
             "unix:PATH, or HOST:PORT with --tls off; "
             "default: nowhere");
  flags->Add("tls", &options->tls, "on|off",
             "off: --listen-clients may be HOST:PORT, where any client is let in and nothing is encrypted");
  DeclareDevices(&options->host, flags);
  flags->Add("island", &options->host.island, "NAME", "a name for the island of this one host");
  flags->Add("host-name", &options->host.host_name, "NAME", "a name for this host; default: its network name");
  DeclareCluster(&options->cluster, flags);
}

LocalCluster::LocalCluster(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LocalCluster::~LocalCluster() = default;

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(LocalClusterOptions options, DeviceHost::Finished finished) {
  auto parts = std::make_unique<Parts>();
  PW_RETURN_IF_ERROR(parts->Start(std::move(options), std::move(finished)));
  return std::unique_ptr<LocalCluster>(new LocalCluster(std::move(parts)));
}

session::Cluster* LocalCluster::cluster() { return parts_->cluster.get(); }

Timers* LocalCluster::timers() { return &parts_->timers; }

HelpedThread* LocalCluster::thread() { return &parts_->executor; }

const Future<Unit>& LocalCluster::formed() const { return parts_->formed->future(); }

void LocalCluster::Stop(const std::string& reason, absl::Duration patience) { parts_->host->Stop(reason, patience); }

bool LocalCluster::AwaitDevices(absl::Duration patience) { return parts_->host->AwaitDevices(patience); }

}  // namespace pw
