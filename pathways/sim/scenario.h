// Scenario: the description of a simulated run, parsed from text. One statement a line; `#` begins a comment.
//
//   - hosts 16                      worker processes; the cluster forms when all have joined
//   - hosts_per_island 4
//   - devices 4                     on each host
//   - device_memory 64KiB           limit on each device; 0: none
//   - policy share                  fifo, share or priority
//   - dispatch sequential           parallel or sequential
//   - heartbeat 2s                  a host that is silent for this long is lost
//   - latency 10us 50us             inside an island, and between islands
//   - bandwidth 10e9 1e9            bytes per second, inside an island, and between islands
//   - task_time 1us                 cost of each task of a process
//   - limit 120s                    of simulated time
//   - restores 1                    clients' sessions outlive their controller: they notice a pause
//   - repeats 4                     one frame in 4 to a host has a command that it has had before (repeats.h)
//   - clients 4 mix operations=200  workloads (workload.h): chain, pipeline, mix, training, exchange
//   - fault 5ms crash host=3        time, kind, target. The time may be a range, "2ms..9ms"; host=any picks one at random
//   - plant swap 200                a bug and its rate (mistakes.h)
//
// Faults. Memory is short if `device_memory` is less than the clients need at the same time.
//   - crash: the process dies
//   - power: its machine dies, silently
//   - stop for=, slow factor= for=
//   - part for=: a partition
//   - delay by= for=: each frame to and from the host takes this much longer
//   - reorder by= for=: up to this much longer, at random, so that frames may overtake each other
//   - start: a dead host comes back
//   - join: a new host
//   - controller for=: it dies, and a new one comes
//   - client: one is killed
//   - unlink for=: a host and the controller lose their connection, and can make none for this long. Nothing is lost, unless that
//     is longer than the heartbeat
//   - sever for=: the same for a host and another one, chosen at random. Nothing is lost if this is less than the heartbeat
//   - cut for=: a client loses its connections, and can make none for this long. It sees a pause
//
// Bugs, and the meaning of their rate n:
//   - lose, repeat, swap, damage: the transport, for one frame in n
//   - hush: the transport, for one dying process in n
//   - patience: the controller, always
//   - order, free, leak, plan, forget: the controller, for one in n of the messages that can be wrong in this way
//   - rename: the controller, for one in n of such messages to clients
//   - donation, progress, resume, short: the workers, for one in n of such messages
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/gang/options.h"
#include "pathways/sim/network.h"

namespace pw::sim {

struct Fault {
  std::string kind;
  absl::Duration earliest;
  absl::Duration latest;
  int host = -1;  // -1: any
  absl::Duration duration;
  absl::Duration by;
  double factor = 1;
};

struct WorkloadSpec {
  std::string kind;
  int clients = 1;
  std::map<std::string, int64_t> numbers;
};

struct Scenario {
  std::string name;
  int hosts = 1;
  int hosts_per_island = 1;
  int devices = 4;
  int64_t device_memory_bytes = 0;
  bool sequential = false;
  gang::Options gang;
  absl::Duration heartbeat = absl::Seconds(2);
  NetworkOptions network;
  absl::Duration task_time = absl::Microseconds(1);
  absl::Duration limit = absl::Seconds(120);
  int repeats = 0;  // 0: none
  int restores = 0;  // not 0: sessions outlive their controller
  std::vector<WorkloadSpec> workloads;
  std::vector<Fault> faults;
  Bug bug = Bug::kNone;
  uint64_t bug_one_in = 100;
};

// Returns whether the scenario cuts clients' connections. Then the controller keeps sessions without one for kClientGrace.
bool CutsClients(const Scenario& scenario);
inline constexpr absl::Duration kClientGrace = absl::Seconds(100);
// Returns whether a controller dies. Then hosts keep everything for kControllerGrace, and wait for the next one.
bool KillsControllers(const Scenario& scenario);
inline constexpr absl::Duration kControllerGrace = absl::Seconds(10);

// Returns whether a host's machine loses its power. Then the others wait for it as long as for any silent host.
bool SilencesHosts(const Scenario& scenario);

// INVALID_ARGUMENT names the line and the expected text.
absl::StatusOr<Scenario> ParseScenario(const std::string& name, absl::string_view text);

}  // namespace pw::sim
