// The contents of `pathways status`, as JSON (docs/status.md). Pure: the parts of ClusterImpl fill it in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/controller/event_log.h"
#include "pathways/gang/scheduler.h"
#include "pathways/resource/placement.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"

namespace pw::controller {

struct HostStatus {
  std::string state;  // "up", "busy", "silent", "away"
  int64_t pid = 0;
  std::string data_address;
  std::string peer;  // address of its connection's other end; empty: it has no connection
  double seconds_since_heard = 0;
  std::optional<double> seconds_away = {};  // without a connection
  int64_t ops_in_flight = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  std::vector<std::pair<std::string_view, uint64_t>> commands;  // how many of each kind; the kinds' names are constants
  std::optional<::pathways::v1::HealthReport> health;  // the last one; none: not received yet
  double seconds_since_health = 0;
  std::optional<::pathways::v1::MetricsReport> metrics;    // none: the host did not answer in time
  std::optional<::pathways::v1::Examination> examination;  // none: not asked for, or not answered in time
  double clock_ahead_seconds = 0;                          // its machine's clock minus the controller's; with an examination
  std::optional<double> certificate_seconds = {};          // until its certificate ends; with an examination
};

struct ClientStatus {
  SessionId session;
  std::string description;
  std::string user;  // empty: a process of the controller's own user
  double seconds_connected = 0;
  int64_t arrays = 0;
  int64_t array_bytes = 0;
  int64_t staged_bytes = 0;
  int64_t staged_peak_bytes = 0;
  int64_t stores_waiting = 0;
  int64_t stores_held_back = 0;
  int64_t executables = 0;
  gang::Scheduler::ClientStats gangs;
  std::optional<double> seconds_away = {};  // without a connection
};

// A client whose session waits for its user's quota.
struct WaitingClientStatus {
  std::string description;
  std::string user;
  int position = 0;  // among the user's
  std::string why;
};

struct SliceStatus {
  SliceId slice;
  SessionId client;
  std::string state;  // "placed", "suspended", "waiting", "broken"
  int64_t count = 0;
  bool exclusive = false;
  std::string island;
  std::vector<DeviceId> devices;  // virtual
  std::vector<DeviceId> physical;
  uint64_t epoch = 0;
  int position = 0;  // if it waits
  std::string waits_for;
};

// A computation that takes far longer than was predicted (scheduling/hang_watch.h).
struct HangStatus {
  struct Part {
    std::string host;
    std::string state;  // what it does there, in words
  };
  uint64_t gang = 0;
  SessionId client;
  std::string program;  // empty: not known
  double seconds = 0;   // on its devices, when the hosts were last asked
  std::optional<double> predicted_seconds;
  std::vector<Part> parts;  // hosts that have not finished
  // The threads of a process on which it may wait, as of when it was named.
  struct Stack {
    std::string host;
    std::string process;  // in words
    std::string text;
  };
  std::vector<Stack> stacks = {};
};

struct StatusReport {
  std::string version;
  int64_t pid = 0;
  double uptime_seconds = 0;
  bool formed = false;
  int expected_hosts = 0;
  int joined_hosts = 0;
  std::string workers_address;  // for workers; empty: not listening yet
  std::string platform_name;
  std::string stablehlo_version;
  std::string policy;
  uint64_t granted = 0;
  int64_t translated_programs = 0;
  int64_t array_bytes = 0;  // that have passed through the controller
  std::shared_ptr<const resource::Snapshot> topology = std::make_shared<resource::Snapshot>();
  std::map<HostId, HostStatus> hosts;
  std::vector<ClientStatus> clients;
  std::vector<WaitingClientStatus> waiting_clients;
  std::vector<SliceStatus> slices;
  std::optional<::pathways::v1::Examination> machine;  // the controller's own; none: not known, or not for the asker
  std::map<std::string, double> certificates;          // seconds until the controller's end, by their names
  std::vector<HangStatus> hangs;
  std::optional<uint64_t> hangs_named;  // how many, since the controller started; none: not for the asker
  absl::Time now;
  std::vector<ClusterEvent> events;  // the oldest first
};

std::string ToJson(const StatusReport& report);

}  // namespace pw::controller
