// ClientLanes: the lanes to the clients whose arrays are here: host buffers come in, what was fetched goes out, and programs call functions of
// their client's process (proto/pathways/v1/lane.proto; lane_calls.h).
//
// A buffer is asked for when there is room: as long as all that was asked for fits into the limit, and what one session asked for into half
// of it; one buffer alone may take it all. Until then it waits at its client. While a client has no lane nothing is asked of it, and what has
// arrived of its buffers is kept for a while, then asked for again from the beginning: it keeps them. What was fetched for it is kept too,
// as long; then it is given up, and reading it says so. Calls wait as long for a client; then they fail.
//
// Invariants:
//   CL-1  each Expect and each Send is answered exactly once, unless the worker goes first; each Call is, in any case
//   CL-2  who has not shown the key of a session learns and changes nothing; of such connections there are few, for a short time
//   CL-3  memory for what was asked for never exceeds the limit; a buffer larger than that fails with RESOURCE_EXHAUSTED
//   CL-4  a session's connection is served once the one before it has closed: nobody writes to memory that is handed out again
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
#include "pathways/base/timer_queue.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"
#include "pathways/net/file_socket.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/lanes/lane_calls.h"
#include "pathways/worker/store/core.h"

namespace pw::worker {

class ClientLanes final : private lanes::LaneEnd::Owner {
 public:
  static constexpr absl::Duration kGreetingTime = absl::Seconds(5);
  static constexpr size_t kMostStrangers = 64;
  static constexpr absl::Duration kKeptWithoutLane =
      absl::Seconds(60);  // for a client, beyond the time that its session waits for it

  using Arrived = absl::AnyInvocable<void(absl::StatusOr<Bytes>) &&>;
  using Gone = absl::AnyInvocable<void() &&>;

  // `timers` may be none: then nothing is given up.
  ClientLanes(Core* core, Timers* timers, int64_t limit_bytes);
  ~ClientLanes() override;

  // A connection that the listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);
  void Admit(const pathways::v1::AdmitLane& command);
  // Clients of this machine hand memory over through this listener's sockets, and get it so.
  void ShareMemory(std::unique_ptr<net::FileListener> files) { files_ = std::move(files); }
  // Arrays fetched for this session should lie in shared memory: its client takes that, or may.
  bool SharesMemory(SessionId session) const;
  // The bytes of a client's host buffer, which are not none.
  void Expect(SessionId session, uint64_t buffer, int64_t bytes, Arrived arrived);
  // `gone`: the client has it, or it was given up.
  void Send(SessionId session, uint64_t fetch, Bytes data, Gone gone);
  // The client of this session uses lanes: its programs' calls go there.
  bool Serves(SessionId session) const;
  // A program calls a function of this session's client. REQUIRES: Serves.
  void Call(const device::HostCallRequest& request, LaneCalls::Done done);
  void Fail(const pathways::v1::FailLane& command);
  void ReleaseOwner(SessionId session);

  // For tests that count.
  int64_t asked_bytes() const { return asked_bytes_; }
  size_t connections() const { return ends_.size(); }
  size_t clients() const { return clients_.size(); }

 private:
  using LaneId = lanes::LaneId;
  struct Buffer {
    int64_t bytes = 0;
    Arrived arrived;
    bool asked = false;  // it has memory, which counts
  };
  struct Fetched {
    Bytes data;
    Gone gone;
  };
  struct Client {
    std::string key;                          // empty: not told yet
    absl::Duration kept = kKeptWithoutLane;
    LaneId lane = 0;                          // 0: none
    LaneId next = 0;                          // takes its place when it has closed
    std::map<uint64_t, uint64_t> begun = {};  // of `next`, or of the lane when it was opened: what had arrived there of fetches
    uint64_t absence = 0;                     // counts the times that there was no lane
    bool shares_memory = false;               // likewise: the client can connect to our memory socket
    std::string memory_key = "";              // the socket for memory of this lane is on its way: fetches wait for it
    int64_t asked_bytes = 0;
    std::map<uint64_t, Buffer> buffers = {};
    std::deque<uint64_t> waiting = {};  // buffers that are to be asked for
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
  void Ask(Client& client, uint64_t name);
  void SendWant(Client& client, uint64_t name);
  void Forget(Client& client, int64_t asked_bytes);
  // These take what they answer out of the table first: the answer may change it.
  void Finish(Client& client, uint64_t name, absl::StatusOr<Bytes> bytes);
  void FailAll(Client& client, const absl::Status& status);
  lanes::LaneEnd* EndOf(const Client& client);

  Core* const core_;
  Timers* const timers_;
  const int64_t limit_bytes_;
  int64_t asked_bytes_ = 0;
  SessionId last_asked_;  // whose turn it was
  LaneId next_lane_ = 1;
  uint64_t next_call_ = 1;
  std::deque<LaneId> strangers_;  // the oldest first
  std::map<SessionId, Client> clients_;
  std::map<LaneId, End> ends_;
  std::unique_ptr<net::FileListener> files_;  // null: no memory is shared with clients
};

}  // namespace pw::worker
