// Settings of a controller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/secret.h"
#include "pathways/gang/options.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

struct SessionLimits {
  int64_t handles = 20'000'000;              // arrays, executables and the like that one client may have at a time
  int64_t staged_bytes = int64_t{64} << 30;  // host buffers of one client that wait in the controller
};

struct ClusterOptions {
  int expect_hosts = 1;                                     // the cluster forms when so many have joined
  absl::Duration heartbeat_limit = absl::Seconds(10);       // a host that is silent for so long is lost
  absl::Duration status_timeout = absl::Milliseconds(500);  // how long GetStatus waits for a host
  SessionLimits limits;
  gang::Options gang;                      // in what order computations run
  int virtual_devices = 0;                 // that each client can have in slices at a time; 0: by the size of the cluster
  bool sequential_dispatch = false;        // programs of many nodes are sent node by node
  ::pathways::v1::HostConfig host_config;  // what hosts go by
  bool share_memory = true;                // with hosts of the same machine, where it can
  std::function<std::string()> make_key = RandomKey;  // secrets that nobody can guess, another at each call
  std::string join_token;                  // hosts that do not show it are refused; empty: all may join
  std::string version = "0.1.0";
};

}  // namespace pw::controller
