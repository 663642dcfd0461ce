// Settings of a controller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/release.h"
#include "pathways/base/secret.h"
#include "pathways/gang/options.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/usage/usage_meter.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

struct SessionLimits {
  int64_t handles = 20'000'000;              // of one client at a time: most arrays, most executables, most waiting host buffers
  int64_t staged_bytes = int64_t{64} << 30;  // most bytes of one client's host buffers in the controller
};

// When a computation counts as hanging (scheduling/hang_watch.h).
struct HangOptions {
  absl::Duration least = absl::Seconds(10);
  double factor = 10;                            // times its predicted time
  absl::Duration unmeasured = absl::Minutes(1);  // a program's first run, of which nothing is predicted
};

struct ClusterOptions {
  int expect_hosts = 1;                                     // the number of hosts with which the cluster forms
  absl::Duration heartbeat_limit = absl::Seconds(10);       // a host that is silent for longer is lost
  absl::Duration status_timeout = absl::Milliseconds(500);  // how long GetStatus waits for a host
  SessionLimits limits;
  gang::Options gang;                        // the order of computations
  int virtual_devices = 0;                   // of one client, in all its slices, at a time; 0: by the size of the cluster
  bool sequential_dispatch = false;          // programs of many nodes are sent node by node
  HangOptions hangs;                         // when a computation counts as hanging
  std::function<absl::Time()> wall_clock;    // of this machine, to compare with the hosts' and for the times of traces; null: neither
  usage::Store store_usage;                  // stores what users have used; null: not stored
  std::map<std::string, double> used_today;  // device seconds of each user that are stored for the day of the start (UTC)
  ::pathways::v1::HostConfig host_config;    // settings of all hosts
  absl::Duration client_grace;               // how long a session waits for a client whose connections are broken
  absl::Duration
      host_grace;  // how long a host may not be heard of while its connection is broken; 0: it is lost with its connection
  // Identifies this controller among those of the cluster: greater than that of each controller before it (identity/epochs.h). 0: none, and
  // no other controller replaces this one.
  uint64_t epoch = 0;
  std::function<uint64_t()> last_epoch;  // that of the cluster's last controller, as the cluster's folder says; null: it has none
  bool restores_sessions = false;   // of the controller before: hosts keep their arrays until they come back (session/restoration.h)
  absl::Duration controller_grace;  // how long hosts keep what they hold without a controller, and wait for the next one; 0: not at all
  std::function<void(const std::string& why)> on_replaced;  // called once, on the strand: another controller has replaced this one
  // Returns a function that tells, at each call, whether this process of the machine has waited for a processor since the last call
  // (base/process/processor_wait.h). Null: silence always counts.
  std::function<std::function<bool(absl::Time now)>(int64_t pid)> watch_process;
  size_t host_kept_bytes = size_t{256} << 20;         // of what waits for such a host: it is lost if more does
  bool share_memory = true;                           // with hosts on the same machine, if they can open it
  std::function<std::string()> make_key = RandomKey;  // returns a new unguessable secret at each call
  identity::ClusterIdentity* identity =
      nullptr;  // who may join, and with what certificate; none: processes of this user, and all where TLS is off
  // Describes the controller's own machine; null: it is not told.
  std::function<::pathways::v1::Examination()> examine_machine;
  // Returns when the controller's certificates end, by their names; null: it has none.
  std::function<std::map<std::string, absl::Time>()> list_certificates;
  std::string version = kRelease;
};

}  // namespace pw::controller
