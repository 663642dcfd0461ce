// StarvedHosts: the silent hosts on the controller's machine that wait for a processor (ClusterOptions::watch_process). Their
// silence is the machine's fault: Heartbeats keeps them longer than other silent hosts.
//
// Invariants:
//   SX-1  a process is watched only while its host is silent for more than half the heartbeat limit
//   SX-2  no host is starved for longer than kLongest times the heartbeat limit
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/controller/options.h"

namespace pw::controller {

class StarvedHosts {
 public:
  static constexpr int kLongest = 6;

  // `options` must outlive this. `pid_of` and `name_of` (for the log) are called for hosts that are present.
  StarvedHosts(const ClusterOptions* options, std::function<int64_t(HostId)> pid_of, std::function<std::string(HostId)> name_of)
      : options_(*options), pid_of_(std::move(pid_of)), name_of_(std::move(name_of)) {}

  // Returns whether this host, a process of the controller's machine, is silent because it waits for a processor. Call it once a tick.
  bool IsStarved(HostId host, absl::Duration silence, absl::Time now);
  void Forget(HostId host) { watched_.erase(host); }

 private:
  struct Watched {
    std::function<bool(absl::Time)> waits;
    absl::Time seen = absl::InfinitePast();  // when it was last seen to wait
  };

  const ClusterOptions& options_;
  const std::function<int64_t(HostId)> pid_of_;
  const std::function<std::string(HostId)> name_of_;
  std::map<HostId, Watched> watched_;
};

}  // namespace pw::controller
