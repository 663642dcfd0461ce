// Lanes: a client's connections to the hosts that hold its arrays (proto/pathways/v1/lane.proto). Host buffers leave on them,
// fetched arrays arrive, and programs call functions of this process (host_calls.h).
//
// The controller offers a lane when there are first bytes for it. Lanes then connects, and reconnects whenever the lane breaks.
// If that fails for `patience`, operations that wait for the host fail and the controller is told; attempts continue. The time
// does not run while the controller is out of reach too.
//
// Invariants:
//   CN-1  each expected fetch ends once: by Drop, or by the callback of Finish. The callback runs when both the bytes and the
//         controller's answer are there, or cannot come any more
//   CN-2  memory is taken only for expected bytes and for operands of calls
// Strand-confined; the transport calls on its own threads. The environment outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/client/host_buffers.h"
#include "pathways/client/host_calls.h"
#include "pathways/client/link.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"
#include "pathways/net/resumable/attempts.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class Lanes final : private lanes::LaneEnd::Owner, public std::enable_shared_from_this<Lanes> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;
  struct Options {
    HostBuffers::Limits buffers;
    absl::Duration patience = absl::Seconds(30);  // the longest time that a host may be out of reach
  };
  struct Owner {
    std::function<void(session::Handle buffer, absl::StatusOr<Bytes> data)> send_in_frame;
    std::function<void(HostId host, const absl::Status& status)> on_lost;  // the host cannot be reached
    std::function<bool()> away;  // the session itself has no connection: a host out of reach is no news then
  };
  static std::shared_ptr<Lanes> Create(const Options& options, const Link::Environment& environment, Owner owner);

  HostBuffers& buffers() { return buffers_; }

  // The controller offers a lane, or says that the lane's host is lost.
  void OnLane(uint64_t session, const ::pathways::v1::SessionLane& offer);
  void OnLaneClosed(const ::pathways::v1::LaneClosed& closed);

  // Sets the handler that answers the calls of programs; null: the calls fail.
  void SetHostCalls(HostCalls::Handler handler) { host_calls_ = std::move(handler); }

  // Prepares for an answer by lane to this request. `bytes`: its size, if known. Drop or Finish follows.
  void Expect(uint64_t fetch, std::optional<int64_t> bytes);
  // Forgets the fetch: the answer did not come by lane.
  void Drop(uint64_t fetch);
  // Calls `done` with the bytes from this host's lane, perhaps inside the call.
  void Finish(uint64_t fetch, HostId host, Done done);
  // Another controller has taken the session, and the hosts that it has. It offers lanes anew. Arrays that it was asked for once more come again.
  void Restart();
  // The session is over: everything fails with this status.
  void End(const absl::Status& status);

  // For tests: breaks a connection, as if the network had failed. Returns false if there is none.
  bool Break(HostId host);
  size_t num_fetches() const { return fetches_.size(); }
  size_t num_calls() const;  // calls by hosts that do not have the answers yet

 private:
  using LaneId = lanes::LaneId;
  struct Host {
    HostId id;
    uint64_t session = 0;
    ::pathways::v1::SessionLane offer;
    std::unique_ptr<lanes::LaneEnd> end = nullptr;  // null: not connected
    bool welcomed = false;
    bool in_parts = false;  // a connection with shared memory has broken: the next ones share none
    absl::Time unreachable_since;
    net::Attempts attempts = {};
    absl::Status last_error = {};
    lanes::Sender sender{lanes::Sender::Names::kBuffers};
    std::shared_ptr<HostCalls> calls = std::make_shared<HostCalls>();
  };
  struct Fetch {
    std::optional<int64_t> bytes;
    std::optional<HostId> from;  // the host that sends the bytes, as seen or as the controller says
    absl::StatusOr<Bytes> data = absl::UnavailableError("");
    bool complete = false;  // `data` is final
    Done done = nullptr;    // once the controller has answered
  };

  Lanes(const Options& options, const Link::Environment& environment, Owner owner);
  HostBuffers::Ways WaysOfBuffers();

  // lanes::LaneEnd::Owner
  void OnLaneMessage(LaneId lane, ::pathways::v1::LaneMessage message, Bytes payload) override;
  void OnLaneWritable(LaneId lane) override;
  void OnLaneClosed(LaneId lane, const absl::Status& reason) override;

  void Connect(HostId host);
  void OnConnected(HostId host, absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void ConnectAgain(Host& host);
  void SayHello(Host& host);
  void ConnectMemory(Host& host, const ::pathways::v1::LaneWelcome& welcome);
  absl::Status Handle(Host& host, const ::pathways::v1::LaneMessage& message, Bytes payload);
  absl::Status OnWelcome(Host& host, const ::pathways::v1::LaneWelcome& welcome);
  absl::Status AddPart(Host& host, const ::pathways::v1::LaneBytes& bytes, Bytes payload);
  absl::Status Begin(Fetch& fetch, uint64_t name, int64_t bytes);
  void SayTaken(Host& host, uint64_t fetch);
  void Complete(uint64_t fetch, absl::StatusOr<Bytes> data);
  void FailFetchesFrom(HostId host, const absl::Status& status);
  Host* HostOf(LaneId lane);

  const Options options_;
  const Link::Environment environment_;
  const Owner owner_;
  absl::Status ended_;
  LaneId next_lane_ = 1;
  std::map<HostId, Host> hosts_;
  std::map<HostId, absl::Status> closed_;  // lanes of hosts that are lost
  BlockCache blocks_;                      // for arriving bytes
  lanes::Receiver receiver_;
  std::map<uint64_t, Fetch> fetches_;
  HostBuffers buffers_;
  HostCalls::Handler host_calls_;
};

}  // namespace pw::client
