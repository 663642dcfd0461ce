// Lanes: a client's connections to the hosts that have its arrays (proto/pathways/v1/lane.proto): host buffers leave, what is fetched arrives,
// and programs call functions of this process (host_calls.h).
//
// The controller offers a lane when there is first something for it. It is connected then, and again whenever it breaks. Where that does not
// succeed for `patience`, what waits for the host fails, the controller is told, and attempts go on. While the controller is out of reach too,
// that time does not run.
//
// Invariants:
//   CN-1  each fetch that was expected ends once: by Drop, or by the callback of Finish, when both its bytes and the controller's answer
//         are there, or cannot come any more
//   CN-2  memory is taken for bytes that were expected and for operands of calls, and for no others
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
#include "pathways/base/block_cache.h"
#include "pathways/client/host_buffers.h"
#include "pathways/client/host_calls.h"
#include "pathways/client/link.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"
#include "pathways/net/attempts.h"
#include "pathways/v1/session.pb.h"

namespace pw::client {

class Lanes final : private lanes::LaneEnd::Owner, public std::enable_shared_from_this<Lanes> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;
  struct Options {
    HostBuffers::Limits buffers;
    absl::Duration patience = absl::Seconds(30);  // how long a host may be out of reach
  };
  struct Owner {
    std::function<void(session::Handle buffer, absl::StatusOr<Bytes> data)> send_in_frame;
    std::function<void(HostId host, const absl::Status& status)> on_lost;  // no way to that host
    std::function<bool()> away;  // the session itself has no connection: then hosts cannot be expected to be in reach
  };
  static std::shared_ptr<Lanes> Create(const Options& options, const Link::Environment& environment, Owner owner);

  HostBuffers& buffers() { return buffers_; }

  // The controller offers a lane, or says that its host is lost. An offer that cannot be used is an error.
  void OnLane(uint64_t session, const ::pathways::v1::SessionLane& offer);
  void OnLaneClosed(const ::pathways::v1::LaneClosed& closed);

  // Sets the handler that answers the calls of programs; null: the calls fail.
  void SetHostCalls(HostCalls::Handler handler) { host_calls_ = std::move(handler); }

  // The answer to this request may come by lane; `bytes`: how many they are then, if that is known.
  void Expect(uint64_t fetch, std::optional<int64_t> bytes);
  // It did not.
  void Drop(uint64_t fetch);
  // It did, on the lane of that host. `done`, perhaps now.
  void Finish(uint64_t fetch, HostId host, Done done);
  // The session is over: everything fails with this.
  void End(const absl::Status& status);

  // For tests: a connection breaks, as if the network had failed. False if there is none.
  bool Break(HostId host);
  size_t num_fetches() const { return fetches_.size(); }
  size_t num_calls() const;  // that hosts have made, and whose answers they do not have

 private:
  using LaneId = lanes::LaneId;
  struct Host {
    HostId id;
    uint64_t session = 0;
    ::pathways::v1::SessionLane offer;
    std::unique_ptr<lanes::LaneEnd> end = nullptr;  // null: not connected
    bool welcomed = false;
    bool in_parts = false;  // a connection that shared memory has broken: no other shall
    absl::Time unreachable_since;
    net::Attempts attempts = {};
    absl::Status last_error = {};
    lanes::Sender sender{lanes::Sender::Names::kBuffers};
    std::shared_ptr<HostCalls> calls = std::make_shared<HostCalls>();
  };
  struct Fetch {
    std::optional<int64_t> bytes;
    std::optional<HostId> from;  // where bytes come from, as seen or as the controller says
    absl::StatusOr<Bytes> data = absl::UnavailableError("");
    bool complete = false;  // `data` is what there will be
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
  BlockCache blocks_;                      // for what arrives
  lanes::Receiver receiver_;
  std::map<uint64_t, Fetch> fetches_;
  HostBuffers buffers_;
  HostCalls::Handler host_calls_;
};

}  // namespace pw::client
