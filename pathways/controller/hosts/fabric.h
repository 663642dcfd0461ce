// Fabric: the part of the controller that sessions use: the present hosts and devices, the outbox of commands, and the work in flight.
// Strand-confined.
//
// The cluster adds and removes hosts, and passes in their events. Sessions add commands to the outbox and wait here for the
// answers. Fabric knows a host by the sink for its frames, a device by the topology, and a session only by number.
//
// Invariant FB-1: when a host is lost, every request that waits for it fails with the error that names it, even if another host
// has reported the failure first. Nothing waits for an absent host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/executor.h"
#include "pathways/controller/hosts/bulk_sender.h"
#include "pathways/controller/hosts/clean_ups.h"
#include "pathways/controller/hosts/device_directory.h"
#include "pathways/controller/hosts/fetches.h"
#include "pathways/controller/hosts/host_groups.h"
#include "pathways/controller/hosts/host_holdings.h"
#include "pathways/controller/hosts/host_losses.h"
#include "pathways/controller/hosts/ops_in_flight.h"
#include "pathways/controller/hosts/outgoing.h"
#include "pathways/controller/hosts/pending_replies.h"
#include "pathways/controller/hosts/settlement.h"
#include "pathways/controller/options.h"
#include "pathways/controller/scheduling/gangs.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/net/shared/unopened_shared_memory.h"
#include "pathways/net/transport.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Fabric {
 public:
  // `post` posts a task to the controller's strand.
  Fabric(const SessionLimits& limits, const gang::Options& gang, Clock* clock, std::function<void(Task)> post);

  // `sink`, for frames to the host, must stay valid until RemoveHost. REQUIRES: the host is in the topology.
  void AddHost(HostId host, net::FrameSink* sink);
  // Notes that the host can open memory that this process shares.
  void SetTakesShared(HostId host);
  bool takes_shared(HostId host) const;
  // Sets the address at which the host's device runtime meets those of other hosts (Hello.process_address). Empty: the host takes
  // no part in programs over several hosts.
  void SetProcessAddress(HostId host, std::string address);
  std::string process_address(HostId host) const;
  // Sets the host's address for lanes, on which clients send and fetch large arrays (Hello.lane_address). Empty: none.
  void SetLaneAddress(HostId host, std::string address);
  std::string lane_address(HostId host) const;
  // Sets the source of unguessable secrets (ClusterOptions::make_key), which MakeKey returns.
  void set_make_key(std::function<std::string()> make_key) { make_key_ = std::move(make_key); }
  std::string MakeKey() { return make_key_(); }
  void set_client_grace(absl::Duration grace) { client_grace_ = grace; }
  absl::Duration client_grace() const { return client_grace_; }
  // Counts the bytes of clients' arrays that have passed through the controller since it started.
  void CountArrayBytes(size_t bytes) { array_bytes_ += static_cast<int64_t>(bytes); }
  int64_t array_bytes() const { return array_bytes_; }
  // Removes the host and its devices; fails everything that waits for it with `error`. Sessions must have poisoned their arrays before.
  void RemoveHost(HostId host, const std::vector<DeviceId>& devices, const absl::Status& error);
  // Sends nothing to any host from now on: the connections end now, the sessions later.
  void Disconnect();
  // Processes a completion, an answer or data. INTERNAL for any other kind of event.
  absl::Status OnEvent(HostId host, const ::pathways::v1::Event& event, Bytes payload);
  void OnBulkWritable(HostId host);
  // Sends the grants, clean-ups and commands of this turn.
  void Flush();

  void Post(Task task) { post_(std::move(task)); }
  // Returns a number for an executable or a launch over several hosts. Sessions name all else (names/request_names.h).
  uint64_t NextId() { return next_id_++; }
  // Lets all numbers from now on be greater than this one.
  void SkipIds(uint64_t last) { next_id_ = std::max(next_id_, last + 1); }
  absl::Time Now() const { return clock_->Now(); }
  // Adds up each session's compile time, until TakeCompileTimes.
  void CountCompile(SessionId session, absl::Duration took) { compile_times_[session] += took; }
  absl::flat_hash_map<SessionId, absl::Duration> TakeCompileTimes() { return std::exchange(compile_times_, {}); }
  // Counts programs that hosts compiled from a translation.
  void CountTranslated() { ++translated_programs_; }
  int64_t translated_programs() const { return translated_programs_; }
  // Reserves `count` consecutive numbers of that kind and returns the first.
  uint64_t ReserveIds(uint64_t count) { return std::exchange(next_id_, next_id_ + count); }
  // True if programs are dispatched node by node (controller/session/runs/sequential_run.h) instead of all at once.
  bool sequential_dispatch() const { return sequential_dispatch_; }
  void set_sequential_dispatch(bool on) { sequential_dispatch_ = on; }
  const SessionLimits& limits() const { return limits_; }

  DeviceDirectory& devices() { return devices_; }
  const DeviceDirectory& devices() const { return devices_; }
  resource::Topology& topology() { return devices_.topology(); }
  dispatch::Outbox& outbox() { return outbox_; }
  OpsInFlight& ops() { return ops_; }
  HostLosses& losses() { return losses_; }
  Gangs& gangs() { return gangs_; }
  HostGroups& groups() { return groups_; }
  Settlement& settlement() { return settlement_; }
  HostHoldings& holdings() { return holdings_; }
  Fetches& fetches() { return fetches_; }
  PendingReplies<::pathways::v1::Compiled>& compiles() { return compiles_; }
  PendingReplies<::pathways::v1::Described>& descriptions() { return descriptions_; }

  trace::Recorder& recorder() { return recorder_; }

  // Sends the bytes of a transfer that a Put has announced to the host. A few bytes go with the commands, many on the bulk lane.
  // Shared memory goes by its name if the host can open it. `exclusive`: the caller keeps no reference and sends the bytes to no
  // other host.
  void SendBytes(HostId host, SessionId session, uint64_t transfer, const Bytes& data, bool exclusive = false);
  // Counts the bytes that were passed to SendBytes and have not left for their hosts yet.
  Outgoing& outgoing() { return outgoing_; }
  // Collects the executables, programs and sessions that hosts can free (housekeeping.h). A host that has left has freed them.
  CleanUps& clean_ups() { return clean_ups_; }
  // Sends the clean-ups to hosts, at the end of a turn.
  using SendCleanUp = std::function<void(const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what)>;
  void SetCleanUp(SendCleanUp send) { send_clean_up_ = std::move(send); }
  // The controller's runtime of the coordination dataflow. Must outlive all sessions.
  void SetDataflow(dataflow::Runtime* runtime) { dataflow_ = runtime; }
  // Installs a program's graph on those of its hosts that are present, until UninstallProgram or the end of the session.
  absl::StatusOr<dataflow::GraphId> InstallProgram(SessionId session, const std::shared_ptr<const dataflow::Graph>& graph);
  void UninstallProgram(SessionId session, dataflow::GraphId graph);
  // Starts a run, with an argument for each host of the graph.
  void StartProgram(dataflow::GraphId graph, absl::flat_hash_map<HostId, std::string> arguments);
  // Ends the session: cancels its requests and transfers, and makes the hosts free its objects.
  void EndSession(SessionId session);

  // For tests: bytes that wait for the bulk lane.
  size_t queued_bulk_bytes(HostId host) const;

 private:
  void OnFetched(HostId host, const ::pathways::v1::Fetched& fetched, Bytes payload);
  void OnFetchedShared(HostId host, const ::pathways::v1::Fetched& fetched);

  struct Peer {
    net::FrameSink* sink;
    BulkSender bulk;
    bool takes_shared = false;
    std::string process_address = {};
    std::string lane_address = {};
    net::UnopenedSharedMemory unopened;
  };

  const SessionLimits limits_;
  Clock* const clock_;
  absl::flat_hash_map<SessionId, absl::Duration> compile_times_;
  const std::function<void(Task)> post_;
  bool sequential_dispatch_ = false;
  int64_t translated_programs_ = 0;
  int64_t array_bytes_ = 0;
  std::function<std::string()> make_key_;
  absl::Duration client_grace_;
  uint64_t next_id_ = 1;
  DeviceDirectory devices_;
  dispatch::Outbox outbox_;
  CleanUps clean_ups_{&outbox_};
  SendCleanUp send_clean_up_;
  dataflow::Runtime* dataflow_ = nullptr;
  std::map<SessionId, std::set<dataflow::GraphId>> programs_;
  HostLosses losses_;
  Settlement settlement_;
  OpsInFlight ops_;
  trace::Recorder recorder_;
  Gangs gangs_;
  HostGroups groups_{&outbox_};
  HostHoldings holdings_;
  Fetches fetches_{&settlement_};
  PendingReplies<::pathways::v1::Compiled> compiles_;
  PendingReplies<::pathways::v1::Described> descriptions_;
  Outgoing outgoing_;
  absl::flat_hash_map<HostId, std::unique_ptr<Peer>> peers_;
};

// Returns the number of payload bytes that an event announces. INTERNAL if the sum overflows.
absl::StatusOr<uint64_t> PayloadBytes(const ::pathways::v1::Event& event);

}  // namespace pw::controller
