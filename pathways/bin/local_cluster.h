// LocalCluster: a cluster of one host as an object. Its controller and its host exchange messages in memory, on one thread. The
// program pathways-local has one; the PJRT door (plugins/pathways_pjrt) has one in the user's process.
//
// Clients in the same process call cluster() directly. Other clients, and operators, connect to an address if the options name
// one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/future.h"
#include "pathways/base/threads/helped_thread.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/bin/cluster_flags.h"
#include "pathways/bin/device_host.h"
#include "pathways/session/session.h"

namespace pw {

struct LocalClusterOptions {
  ClusterFlags cluster;
  DeviceHostOptions host;
  std::string listen_clients;  // empty: no other process can connect
  std::string tls = "on";      // "off": listen_clients may be on a network
};

void DeclareLocalCluster(LocalClusterOptions* options, Flags* flags);

class LocalCluster {
 public:
  // Loads the device plugin and starts the cluster. `finished` is called at most once, on any thread, if the host ends for good
  // without Stop.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(LocalClusterOptions options, DeviceHost::Finished finished);
  ~LocalCluster();

  session::Cluster* cluster();
  Timers* timers();
  // Returns the thread on which everything runs. Callers may help it (base/threads/helped_thread.h).
  HelpedThread* thread();
  // Returns a future that is set when the host has joined: then the cluster serves sessions. An error if the host ended before.
  const Future<Unit>& formed() const;
  // Makes the host leave. Returns when that is done, or after `patience`. The process should then end without destroying the
  // cluster, because devices may still be at work.
  void Stop(const std::string& reason, absl::Duration patience);
  // Waits for the devices, like DeviceHost::AwaitDevices. REQUIRES: the host is in_user_process.
  bool AwaitDevices(absl::Duration patience);

 private:
  struct Parts;
  explicit LocalCluster(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace pw
