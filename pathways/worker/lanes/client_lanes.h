// ClientLanes: the lanes to the clients whose arrays are on this host (proto/pathways/v1/lane.proto). They bring in clients' host
// buffers, take out fetched arrays, and carry programs' calls of functions of their client's process (lane_calls.h).
//
// The worker requests a buffer when it has room: all requested buffers together fit the limit, and those of one session half of
// it, unless that is one buffer. They also fit the quota of the session's user, together with buffers that have come and are not
// on their devices yet (host_quota.h). Until then the buffer waits at its client. A client without a lane gets no requests. The
// worker keeps for a while what it has for such a client: parts of buffers, fetched arrays, and calls. Then it drops the parts,
// and requests these buffers from the beginning when the client is back. It gives up the arrays, so that reading them fails, and
// fails the calls.
//
// Invariants:
//   CL-1  each Expect and each Send is answered exactly once, unless the worker ends first; each Call is answered in any case
//   CL-2  a connection that has not shown a session's key learns and changes nothing. Such connections are few and short-lived
//   CL-3  memory for requested buffers never exceeds the limit; a buffer larger than that fails with RESOURCE_EXHAUSTED
//   CL-4  a session's connection is served once the one before it has closed. So no old one writes to reused memory
//   CL-5  buffers that wait for a quota are no activity (memory_gate.h), because a buffer that has come may itself wait for memory
// Lives on the worker's strand; connections' threads only post to it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"
#include "pathways/net/sockets/file_socket.h"
#include "pathways/net/strangers.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/lanes/lane_calls.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/host_quota.h"
#include "pathways/worker/store/memory_gate.h"

namespace pw::worker {

class ClientLanes final : private lanes::LaneEnd::Owner {
 public:
  static constexpr absl::Duration kKeptWithoutLane =
      absl::Seconds(60);  // beyond the session's grace, for a client without a lane

  using Arrived = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;
  using Gone = absl::AnyInvocable<void() &&>;

  // `blocks`: memory for what arrives. `timers` may be null: then nothing is given up.
  // The callers of Expect count each buffer as activity of `activity`.
  ClientLanes(WorkerContext* context, BlockCache* blocks, Timers* timers, int64_t limit_bytes, HostQuota* quota,
              MemoryGate* activity);
  ~ClientLanes() override;

  // Takes a connection that the listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);
  void Admit(const pathways::v1::AdmitLane& command);
  // Exchanges shared memory with clients of this machine through this listener's sockets.
  void ShareMemory(std::unique_ptr<net::FileListener> files) { files_ = std::move(files); }
  // Returns whether the session's client takes shared memory, or may: then arrays fetched for it should be in such memory.
  bool SharesMemory(SessionId session) const;
  // Gets a client's host buffer. REQUIRES: bytes > 0.
  void Expect(SessionId session, uint64_t buffer, int64_t bytes, Arrived arrived);
  // Sends a fetched array. Calls `gone` when the client has it, or it was given up.
  void Send(SessionId session, uint64_t fetch, Bytes data, Gone gone);
  // Returns whether the session's client uses lanes: its programs' calls then go there.
  bool Serves(SessionId session) const;
  // Calls a function of the session's client for a program. REQUIRES: Serves.
  void Call(const device::HostCallRequest& request, LaneCalls::Done done);
  void Fail(const pathways::v1::FailLane& command);
  void ReleaseOwner(SessionId session);
  // Requests more buffers: quotas may have room.
  void MoreRoom() { AskForMore(); }
  // The first buffer of each session that waits for the quota.
  struct Waiting {
    SessionId session;
    int64_t bytes = 0;
  };
  std::vector<Waiting> quota_waits() const;

  // For tests.
  int64_t asked_bytes() const { return asked_bytes_; }
  size_t connections() const { return ends_.size(); }
  size_t clients() const { return clients_.size(); }

 private:
  using LaneId = lanes::LaneId;
  struct Buffer {
    int64_t bytes = 0;
    Arrived arrived;
    bool asked = false;  // requested: its memory counts against the limit
    HostQuota::Charge charge = nullptr;
  };
  struct Fetched {
    Bytes data;
    Gone gone;
  };
  struct Client {
    std::string key;  // empty: the controller has not sent it yet
    absl::Duration kept = kKeptWithoutLane;
    LaneId lane = 0;                          // 0: none
    LaneId next = 0;                          // replaces `lane` when that has closed
    std::map<uint64_t, uint64_t> begun = {};  // bytes of each fetch that the client had at the latest hello
    uint64_t absence = 0;                     // counts the absences that have ended
    bool shares_memory = false;               // by the latest hello: the client can connect to our memory socket
    std::string memory_key = "";              // of the lane's memory socket that is being connected: fetches wait for it
    int64_t asked_bytes = 0;
    std::map<uint64_t, Buffer> buffers = {};
    std::deque<uint64_t> waiting = {};  // buffers to request
    bool over_quota = false;            // `waiting` waits for the quota, and is not activity
    lanes::Receiver receiver = {};
    lanes::Sender sender{lanes::Sender::Names::kFetches};
    std::map<uint64_t, Fetched> fetched = {};
    std::vector<uint64_t> given_up = {};  // fetches; the client is told when it has a lane again
    LaneCalls calls = {};
  };
  struct End {
    std::unique_ptr<lanes::LaneEnd> lane;
    SessionId session;  // once it has shown the key
  };

  void OnLaneMessage(LaneId lane, pathways::v1::LaneMessage message, Bytes payload) override;
  void OnLaneWritable(LaneId lane) override;
  void OnLaneClosed(LaneId lane, const absl::Status& reason) override;

  void Greet(LaneId lane, const pathways::v1::LaneHello& hello);
  absl::Status CheckHello(const pathways::v1::LaneHello& hello) const;
  absl::Status Handle(Client& client, const pathways::v1::LaneMessage& message, Bytes payload);
  absl::Status AddPart(Client& client, const pathways::v1::LaneBytes& bytes, Bytes payload);
  void OnTaken(Client& client, const pathways::v1::LaneTaken& taken);
  void AwaitClient(SessionId session, const Client& client);
  void OpenNext(Client& client);
  void OfferMemory(Client& client, pathways::v1::LaneWelcome* welcome);
  void OnMemorySocket(LaneId lane, std::unique_ptr<net::FileSocket> files);
  void ResumeFetches(Client& client);
  void LaneGone(SessionId session, Client& client);
  void GiveUp(SessionId session, uint64_t absence);
  void TakeBack(Client& client);
  void AskForMore();
  bool AskForOne();
  void Ask(SessionId session, Client& client, uint64_t name);
  void SetOverQuota(Client& client, bool over);
  void SendWant(Client& client, uint64_t name);
  void Forget(Client& client, int64_t asked_bytes);
  // These remove entries from the table before they answer them: an answer may change the table.
  void Finish(Client& client, uint64_t name, absl::StatusOr<Bytes> bytes);
  void FailAll(Client& client, const absl::Status& status);
  lanes::LaneEnd* EndOf(const Client& client);

  WorkerContext* const context_;
  BlockCache* const blocks_;
  Timers* const timers_;
  const int64_t limit_bytes_;
  HostQuota* const quota_;
  MemoryGate* const activity_;
  int64_t asked_bytes_ = 0;
  SessionId last_asked_;  // the session that had the last turn
  LaneId next_lane_ = 1;
  uint64_t next_call_ = 1;
  net::Strangers<LaneId> strangers_;
  std::map<SessionId, Client> clients_;
  std::map<LaneId, End> ends_;
  std::unique_ptr<net::FileListener> files_;  // null: no memory is shared with clients
};

}  // namespace pw::worker
