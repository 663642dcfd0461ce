// Fabric: what sessions use of the cluster: who is there, the way to the hosts, and what is under way. Strand-confined.
//
// It knows hosts by their connection and devices by the topology, and nothing of sessions but their number. The cluster adds and
// removes hosts and feeds in what they say; sessions plan commands into the outbox and wait here for the answers.
//
// Invariant FA-1: when a host is lost, everything that waits for it gets the error that names it; nothing waits for a host that
// is not there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "pathways/base/executor.h"
#include "pathways/base/ids.h"
#include "pathways/controller/bulk_sender.h"
#include "pathways/controller/clean_ups.h"
#include "pathways/controller/fetches.h"
#include "pathways/controller/gangs.h"
#include "pathways/controller/host_groups.h"
#include "pathways/controller/ops_in_flight.h"
#include "pathways/controller/options.h"
#include "pathways/controller/outgoing.h"
#include "pathways/controller/pending_replies.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/net/loans.h"
#include "pathways/net/transport.h"
#include "pathways/resource/topology.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class Fabric {
 public:
  // `post` runs a task on the controller's strand, later.
  Fabric(const SessionLimits& limits, const gang::Options& gang, Clock* clock, std::function<void(Task)> post);

  // `connection` outlives the host's presence here.
  void AddHost(HostId host, net::Connection* connection);
  // The host can open memory that this process shares.
  void SetTakesShared(HostId host);
  bool takes_shared(HostId host) const;
  // Where its runtime meets others (Hello.process_address); empty: it cannot.
  void SetProcessAddress(HostId host, std::string address);
  std::string process_address(HostId host) const;
  // Where clients bring large arrays, and get them (Hello.lane_address); empty: nowhere.
  void SetLaneAddress(HostId host, std::string address);
  std::string lane_address(HostId host) const;
  void set_make_key(std::function<std::string()> make_key) { make_key_ = std::move(make_key); }
  std::string MakeKey() { return make_key_(); }
  // Of arrays that clients put or read: so many bytes have come through here, since the controller started.
  void CountArrayBytes(size_t bytes) { array_bytes_ += static_cast<int64_t>(bytes); }
  int64_t array_bytes() const { return array_bytes_; }
  // The host's devices are no more, and all that waits for it fails with `error`. Its arrays are the sessions' to poison, before
  // this.
  void RemoveHost(HostId host, const std::vector<DeviceId>& devices, const absl::Status& error);
  // A completion, an answer or data. INTERNAL if the payload does not fit, or the event is not one of these.
  absl::Status OnEvent(HostId host, const ::pathways::v1::Event& event, Bytes payload);
  void OnBulkWritable(HostId host);
  // Sends what is in the outbox.
  void Flush();

  void Post(Task task) { post_(std::move(task)); }
  uint64_t NextId() { return next_id_++; }
  // Programs that hosts compiled from a translation.
  void CountTranslated() { ++translated_programs_; }
  int64_t translated_programs() const { return translated_programs_; }
  // The first of so many ids in a row.
  uint64_t ReserveIds(uint64_t count) { return std::exchange(next_id_, next_id_ + count); }
  // Programs are dispatched node by node (controller/sequential_run.h) instead of all at once.
  bool sequential_dispatch() const { return sequential_dispatch_; }
  void set_sequential_dispatch(bool on) { sequential_dispatch_ = on; }
  const SessionLimits& limits() const { return limits_; }

  resource::Topology& topology() { return topology_; }
  dispatch::Outbox& outbox() { return outbox_; }
  OpsInFlight& ops() { return ops_; }
  Gangs& gangs() { return gangs_; }
  HostGroups& groups() { return groups_; }
  Fetches& fetches() { return fetches_; }
  PendingReplies<::pathways::v1::Compiled>& compiles() { return compiles_; }
  PendingReplies<::pathways::v1::Described>& descriptions() { return descriptions_; }

  trace::Recorder& recorder() { return recorder_; }

  // Virtual devices that are bound to nothing: what uses of them get. Until ForgetGone.
  void SetGone(const std::vector<DeviceId>& devices, const absl::Status& error);
  void ForgetGone(DeviceId first, int count);

  // OK if all are there; the error of SetGone, or UNAVAILABLE for one that was lost, with its host's name; INVALID_ARGUMENT for
  // one that never was, or listed twice.
  absl::Status CheckDevices(const std::vector<DeviceId>& devices) const;
  // The memory of that kind ("": the default one) of a device. INVALID_ARGUMENT lists those it has. REQUIRES: the device is
  // there.
  absl::StatusOr<std::string> MemoryKind(DeviceId device, const std::string& kind) const;

  // The bytes of a transfer that a Put has announced to the host: small ones with the commands, large ones on the bulk lane,
  // shared memory by its name if the host can open it. `exclusive`: the caller keeps no reference and sends them to nobody else.
  void SendBytes(HostId host, SessionId session, uint64_t transfer, const Bytes& data, bool exclusive = false);
  // What SendBytes was given and has not left for its hosts yet.
  Outgoing& outgoing() { return outgoing_; }
  // Executables, programs, sessions that nobody needs any more: their hosts forget them (housekeeping.h). Those who are not there have.
  CleanUps& clean_ups() { return clean_ups_; }
  // How that is told to hosts, at the end of a turn.
  using SendCleanUp = std::function<void(const std::vector<HostId>& hosts, const ::pathways::v1::CleanUp& what)>;
  void SetCleanUp(SendCleanUp send) { send_clean_up_ = std::move(send); }
  // Nothing more is sent or answered for a session; the hosts free what it owns.
  void EndSession(SessionId session);

  size_t queued_bulk_bytes(HostId host) const;
  size_t lent_bytes(HostId host) const;

 private:
  void OnFetchedShared(HostId host, const ::pathways::v1::Fetched& fetched);

  struct Peer {
    net::Connection* connection;
    BulkSender bulk;
    bool takes_shared = false;
    std::string process_address = {};
    std::string lane_address = {};
    net::Loans loans;
  };

  const SessionLimits limits_;
  const std::function<void(Task)> post_;
  bool sequential_dispatch_ = false;
  int64_t translated_programs_ = 0;
  int64_t array_bytes_ = 0;
  std::function<std::string()> make_key_;
  uint64_t next_id_ = 1;  // names arrays, executables, transfers and questions
  resource::Topology topology_;
  dispatch::Outbox outbox_;
  CleanUps clean_ups_{&outbox_};
  SendCleanUp send_clean_up_;
  OpsInFlight ops_;
  trace::Recorder recorder_;
  Gangs gangs_;
  HostGroups groups_{&outbox_};
  Fetches fetches_;
  PendingReplies<::pathways::v1::Compiled> compiles_;
  PendingReplies<::pathways::v1::Described> descriptions_;
  Outgoing outgoing_;
  absl::flat_hash_map<HostId, std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<DeviceId, std::shared_ptr<const absl::Status>> lost_devices_;
};

// How many payload bytes an event announces. INTERNAL if the number overflows.
absl::StatusOr<uint64_t> PayloadBytes(const ::pathways::v1::Event& event);

}  // namespace pw::controller
