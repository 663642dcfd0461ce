#include "pathways/bin/simulated_hosts.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/in_memory/delayed_connection.h"
#include "pathways/worker/controller_link.h"

namespace pw {
namespace {

constexpr absl::string_view kHostPrefix = "host";

}  // namespace

// Outlet: a simulated host's transport. It connects to the controller by a socket, to hosts in memory, and to hosts of other
// islands with delay.
class SimulatedHosts::Outlet : public net::Transport {
 public:
  Outlet(SimulatedHosts* all, int island)
      : all_(all),
        island_(island),
        uplink_(std::make_shared<net::Uplink>(&all->clock_, all->options_.latency, all->options_.uplink_bytes_per_second)),
        inside_(&all->network_, &all->executor_, &all->timers_) {}

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address, AcceptCallback on_accept) override {
    return inside_.Listen(address, std::move(on_accept));
  }
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override {
    if (address == all_->options_.controller) return all_->outside_.Connect(address, timeout, std::move(on_done));
    const auto found = all_->islands_.find(address);
    if (found == all_->islands_.end() || found->second == island_ || uplink_->takes_no_time())
      return inside_.Connect(address, timeout, std::move(on_done));
    inside_.Connect(
        address, timeout,
        [all = all_, uplink = uplink_, on_done = std::move(on_done)](absl::StatusOr<std::unique_ptr<net::Connection>> made) {
          if (made.ok())
            made = std::make_unique<net::DelayedConnection>(*std::move(made), uplink, &all->timers_, &all->executor_);
          on_done(std::move(made));
        });
  }

 private:
  SimulatedHosts* const all_;
  const int island_;
  const std::shared_ptr<net::Uplink> uplink_;
  net::MemoryTransport inside_;
};

struct SimulatedHosts::Host {
  Host(SimulatedHosts* all, int island) : outlet(all, island), strand(&all->executor_) {}

  std::unique_ptr<device::DeviceRuntime> runtime;
  Outlet outlet;
  Strand strand;
  int next_launch_id = 0;
  std::atomic<worker::ControllerLink*> link_for_peers{nullptr};
  std::unique_ptr<net::Listener> listener, lane_listener;  // for other hosts; for clients on this machine
  std::unique_ptr<worker::ControllerLink> link;
};

SimulatedHosts::SimulatedHosts(SimulatedHostsOptions options) : options_(std::move(options)) {}
SimulatedHosts::~SimulatedHosts() = default;

// `host` is a name such as host12.
int SimulatedHosts::IslandOf(const std::string& host) const {
  int number = 0;
  const bool known = absl::SimpleAtoi(absl::StripPrefix(host, kHostPrefix), &number);
  return known ? IslandOf(number) : 0;
}

absl::Status SimulatedHosts::Start(Finished finished) {
  if (options_.hosts < 1 || options_.hosts_per_island < 1 || options_.devices < 1)
    return absl::InvalidArgumentError("--simulated-hosts, --hosts-per-island and --devices must be at least 1");
  finished_ = std::move(finished);
  compiler_ = std::make_unique<device::Compiler>(options_.make_compiler, options_.speed);
  for (int i = 0; i < options_.hosts; ++i) PW_RETURN_IF_ERROR(StartHost(i));
  for (const auto& host : hosts_) host->link->Start();
  return absl::OkStatus();
}

absl::Status SimulatedHosts::StartHost(int number) {
  auto host = std::make_unique<Host>(this, IslandOf(number));
  const std::string name = absl::StrCat(kHostPrefix, number);
  PW_ASSIGN_OR_RETURN(host->runtime,
                      device::MakeZeroRuntime({.process = name,
                                               .devices = options_.devices,
                                               .island_of = [this](const std::string& host) { return IslandOf(host); },
                                               .executor = &executor_,
                                               .clock = &clock_,
                                               .timers = &timers_,
                                               .compiler = compiler_.get(),
                                               .meetings = &meetings_,
                                               .zeros = &zeros_}));
  PW_ASSIGN_OR_RETURN(host->listener, host->outlet.Listen(absl::StrCat("unix:@simulated-", name),
                                                          [h = host.get()](std::unique_ptr<net::Connection> peer) {
                                                            if (auto* link = h->link_for_peers.load())
                                                              link->AcceptPeer(std::move(peer));
                                                          }));
  islands_[host->listener->address()] = IslandOf(number);
  PW_ASSIGN_OR_RETURN(host->lane_listener, outside_.Listen(absl::StrCat("unix:@pathways-simulated-", getpid(), "-", number),
                                                           [h = host.get()](std::unique_ptr<net::Connection> client) {
                                                             if (auto* link = h->link_for_peers.load())
                                                               link->AcceptLane(std::move(client));
                                                           }));
  worker::Environment environment;
  environment.runtime = host->runtime.get();
  environment.strand = &host->strand;
  environment.clock = &clock_;
  environment.timers = &timers_;
  environment.compile_pool = &compile_pool_;
  environment.compile_cache = std::make_shared<worker::CompileCache>("", 0);
  environment.transport = &host->outlet;
  environment.next_launch_id = &host->next_launch_id;
  environment.limits.device_memory_bytes = options_.device_memory_bytes;
  environment.limits.staging_bytes = options_.staging_bytes;
  environment.shares_memory = false;
  environment.peers_in_process = true;
  worker::LinkOptions link;
  link.controller = options_.controller;
  link.token = options_.credentials.token.Now();
  link.tls = options_.credentials.tls;
  link.host_name = name;
  link.island = absl::StrCat("island", IslandOf(number));
  link.data_address = host->listener->address();
  link.lane_address = host->lane_listener->address();
  link.pid = getpid();
  link.exit_with_controller = options_.exit_with_controller;
  link.share_memory = false;
  host->link =
      std::make_unique<worker::ControllerLink>(environment, &host->strand, &timers_, link, [this](const absl::Status& status) {
        finishing_.Post([this, status] {
          if (auto finished = std::exchange(finished_, nullptr)) finished(status);
        });
      });
  host->link_for_peers.store(host->link.get());
  hosts_.push_back(std::move(host));
  return absl::OkStatus();
}

void SimulatedHosts::Stop(const std::string& reason, absl::Duration patience) {
  auto stopped = std::make_shared<std::promise<void>>();
  auto left = std::make_shared<std::atomic<size_t>>(hosts_.size());
  if (hosts_.empty()) return;
  for (const auto& host : hosts_) {
    host->link->Stop(reason, [stopped, left] {
      if (left->fetch_sub(1) == 1) stopped->set_value();
    });
  }
  stopped->get_future().wait_for(absl::ToChronoMilliseconds(patience));
}

}  // namespace pw
