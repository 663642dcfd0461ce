// SimulatedHosts: many hosts of a cluster in one process. Each is a real worker with simulated devices.
//
// Each has its own connection to the controller, which cannot distinguish it from a real host. Hosts pass data to each other in
// memory, delayed like on the network between islands. Their devices compile programs for their shapes and compute nothing
// (device/simulated/zero_runtime.h).
//
// All hosts share the threads and the compiler. Owned by main.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/device/simulated/zero_runtime.h"
#include "pathways/identity/credentials.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw {

struct SimulatedHostsOptions {
  std::string controller;  // address
  identity::Credentials credentials;
  int hosts = 1;                    // host0, host1, ...
  int hosts_per_island = 1;         // the first hosts form island0, and so on
  int devices = 4;                  // on each host
  int64_t device_memory_bytes = 0;  // 0: no limit
  int64_t staging_bytes = int64_t{4} << 30;
  bool exit_with_controller = false;
  device::DeviceSpeed speed;
  // The data-centre network, from a host to hosts of other islands. Within an island, transfers take no time.
  absl::Duration latency;
  double uplink_bytes_per_second = 0;  // of each host; 0: bytes take no time
  device::Compiler::MakeRuntime make_compiler;
};

class SimulatedHosts {
 public:
  // Called at most once, on any thread, with the reason for which the process should end.
  using Finished = absl::AnyInvocable<void(const absl::Status&)>;

  explicit SimulatedHosts(SimulatedHostsOptions options);
  ~SimulatedHosts();

  // Makes the hosts and lets them join. INVALID_ARGUMENT if the options make no cluster; else errors of the compiler.
  absl::Status Start(Finished finished);
  // Makes the hosts leave. Returns when that is done, or after `patience`.
  void Stop(const std::string& reason, absl::Duration patience);

 private:
  struct Host;
  class Outlet;

  absl::Status StartHost(int number);
  int IslandOf(int host) const { return host / options_.hosts_per_island; }
  int IslandOf(const std::string& host) const;

  const SimulatedHostsOptions options_;
  Finished finished_;
  // Destroyed in the reverse order: hosts, timers, connections, the threads and their remaining tasks, then the rest.
  SteadyClock clock_;
  device::Zeros zeros_;
  device::Meetings meetings_;
  std::unique_ptr<device::Compiler> compiler_;
  net::MemoryNetwork network_{net::Payloads::kHandedOver};
  ThreadPool executor_{"pw-hosts", 2};
  ThreadPool compile_pool_{"pw-compile", 1};
  Strand finishing_{&executor_};
  net::AsioTransport outside_{{.tls = options_.credentials.tls}};
  TimerQueue timers_{&clock_};
  std::map<std::string, int> islands_;  // by a host's address
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace pw
