// DeviceHost: one host of a cluster, as an object. It owns the accelerators that a PJRT plugin finds on this machine, the worker
// that runs them, and the worker's threads and listeners. The programs pathways-worker and pathways-local create one each;
// pathways-local runs its controller in the same process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/bin/examine_machine.h"
#include "pathways/bin/object_flags.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/launches.h"
#include "pathways/identity/credentials.h"
#include "pathways/net/transport.h"
#include "pathways/worker/controller_link.h"
#include "pathways/worker/python/rights.h"
#include "pathways/worker/world_link.h"

namespace pw {

// device_host.cc explains each option in the help of its flag.
struct DeviceHostOptions {
  // Devices: the plugin, and limits on memory, compilation and transfers.
  std::string plugin;
  std::vector<std::string> device_options;
  int devices = 0;
  std::string compile_cache;
  int64_t compile_cache_bytes = int64_t{4} << 30;
  int compile_threads = 2;
  int64_t memory_limit = 0;
  int64_t staging_limit = 0;
  bool shared_memory = true;
  std::string host_python;
  worker::PythonRights python_rights;
  std::string persistence_directory;
  std::string users_directory;
  std::string object_directory;
  ObjectFlags objects;
  // Place: the addresses and names of this host and of its controller.
  std::string controller;
  std::string island = "island0";
  std::string host_name;
  int most_hosts = 1;
  int island_hosts = 0;
  int most_devices = 0;
  std::string listen;
  std::string listen_lanes;
  std::string advertise;
  identity::CredentialOptions credentials;
  bool checksum = false;
  bool exit_with_controller = false;
  // Not a flag: the host is in the user's own process. The worker's own thread then launches the CPU plugin's programs
  // (device/pjrt/launcher.h). Launches are counted, so that the end of the process can wait for them.
  bool in_user_process = false;
};

// Add the command-line flags for the two parts of the options: devices, and place.
void DeclareDevices(DeviceHostOptions* options, Flags* flags);
void DeclarePlace(DeviceHostOptions* options, Flags* flags);
// Returns whether the hosts of the island are a world (device/world.h) from their start.
inline bool IslandIsWorld(const DeviceHostOptions& options) { return options.island_hosts > 1; }
// Returns the place of this host in its island's world, for WorldLink.
worker::WorldOptions WorldOptionsFrom(const DeviceHostOptions& options, const identity::Credentials& credentials);

// Returns the path of the plugin: options.plugin if it is set, else the default.
std::string PluginPath(const DeviceHostOptions& options);
class DeviceHost {
 public:
  struct Environment {
    Executor* executor;  // runs the worker's strand
    Clock* clock;
    Timers* timers;
    net::Transport* transport;           // to the controller and to other hosts
    net::Transport* lanes;               // to clients (lanes/lane_end.h); null: clients cannot connect to this host
    identity::Credentials credentials;   // of the transports
    worker::WorldLink* world = nullptr;  // the host's place in the world of its island; null: the island is none
    std::function<std::string()> native_stacks = nullptr;  // of worker::Environment
  };
  // Called at most once, on any thread, when the host has ended for good without Stop. The status gives the reason; the process should end.
  using Finished = std::function<void(const absl::Status&)>;

  // Loads the plugin, which finds the devices. If the island is a world, first forms it, and blocks until all of its hosts have come
  // or the world is stopped. The members of `environment` outlive the host.
  static absl::StatusOr<std::unique_ptr<DeviceHost>> Create(DeviceHostOptions options, const Environment& environment);
  ~DeviceHost();

  // Starts to listen for other hosts and clients, and begins to connect to the controller. Returns an error if it cannot listen.
  // The host connects again whenever the controller is lost, unless exit_with_controller is set.
  absl::Status Join(Finished finished);
  // Calls `done` with the host's metrics for Prometheus, on the worker's strand. REQUIRES: Join has succeeded.
  void GetMetrics(absl::AnyInvocable<void(std::string) &&> done) { link_->GetMetrics(std::move(done)); }
  // Leaves the cluster. Returns when this is done, or after `patience`. The caller should then end the process without destroying
  // the host, because devices may still be at work. REQUIRES: Join has succeeded.
  void Stop(const std::string& reason, absl::Duration patience);
  // Waits until the devices have ended all launches. Returns false if that takes longer than `patience`. Called after Stop, in a
  // process that cannot end while devices compute. REQUIRES: in_user_process.
  bool AwaitDevices(absl::Duration patience) { return launches_->AwaitNone(patience); }

 private:
  DeviceHost(DeviceHostOptions options, const Environment& environment);
  absl::StatusOr<std::unique_ptr<net::Listener>> Accept(net::Transport* transport, const std::string& address,
                                                        void (worker::ControllerLink::*accept)(std::unique_ptr<net::Connection>));
  worker::Environment ForWorker();

  const DeviceHostOptions options_;
  const Environment environment_;
  std::shared_ptr<device::pjrt::Launches> launches_;  // null unless in_user_process
  std::unique_ptr<device::DeviceRuntime> runtime_;
  storage::ObjectStores object_stores_;
  ThreadPool copy_pool_;
  ThreadPool compile_pool_;
  ThreadPool disk_;                           // reads and writes files of clients
  std::shared_ptr<Executor> python_threads_;  // each waits for a Python process
  Strand strand_;
  int next_launch_id_ = 0;
  std::shared_ptr<const MachineExaminer> machine_;
  std::atomic<worker::ControllerLink*> link_for_peers_ = nullptr;
  std::unique_ptr<net::Listener> peers_, lanes_;
  std::unique_ptr<worker::ControllerLink> link_;
};

// Returns a callback that stores a host's final status in `outcome`, and wakes main's StopSignal. `outcome` outlives the host.
DeviceHost::Finished StopProcess(absl::Status* outcome);
// Prints the outcome if it is an error, and ends the process at once. Waits neither for compilations nor for devices that still
// compute.
[[noreturn]] void EndProcess(const std::string& program, const absl::Status& outcome);

}  // namespace pw
