// LocalCluster: a cluster of one host as an object: its controller and its host exchange messages in memory, on one thread. The program
// pathways-local has one; the PJRT door (plugins/pathways_pjrt) has one in the user's process.
//
// Clients of the same process call cluster() directly. Others, and operators, connect to an address if the options name one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/flags.h"
#include "pathways/base/future.h"
#include "pathways/base/helped_thread.h"
#include "pathways/base/timer_queue.h"
#include "pathways/bin/cluster_flags.h"
#include "pathways/bin/device_host.h"
#include "pathways/session/session.h"

namespace pw {

struct LocalClusterOptions {
  ClusterFlags cluster;
  DeviceHostOptions host;
  std::string listen_clients;  // empty: nobody connects from elsewhere
  std::string tls = "on";      // "off": listen_clients may be on a network
};

void DeclareLocalCluster(LocalClusterOptions* options, Flags* flags);

class LocalCluster {
 public:
  // Loads the device plugin and starts everything. `finished` is called at most once, on any thread, if the host ends for good without Stop.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(LocalClusterOptions options, DeviceHost::Finished finished);
  ~LocalCluster();

  session::Cluster* cluster();
  Timers* timers();
  // The thread on which everything runs: callers may stand in for it.
  HelpedThread* thread();
  // Set when the host has joined: the cluster serves sessions from then on. An error if the host has ended before.
  const Future<Unit>& formed() const;
  // The host leaves. Returns when that is done, or after `patience`. The process should then end without destroying the cluster, because devices
  // may still be at work.
  void Stop(const std::string& reason, absl::Duration patience);
  // Returns true when the devices have ended their work, as DeviceHost has it. REQUIRES: the host is in_user_process.
  bool AwaitDevices(absl::Duration patience);

 private:
  struct Parts;
  explicit LocalCluster(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace pw
