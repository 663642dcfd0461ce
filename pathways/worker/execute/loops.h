// Loops: this host's part in the loops of programs (worker.proto: BeginLoop, LoopLease; peer.proto: LoopTurn).
//
// A loop runs the same graph of commands again and again. The hosts decide whether another turn follows, without the controller: the leader, the
// host that has the predicate, reads it after each turn and tells the others. A host begins a turn when it knows that the turn follows and
// has a lease with room for it. Beginning a turn means to dispatch all its commands (ProgramNodes), which then wait for their inputs as usual: so hosts
// need not begin it at the same time, and a fast one is at most some leases ahead.
//
// Leases. The controller's scheduler grants the devices for some turns at once. The lease keeps its place on the devices of each host
// (LaunchOrder) until its last turn has been launched: the other clients' computations have the same order on all hosts, and get their turns between
// the leases. A lease also brings the names of its turns' arrays, which no other turn has.
//
// Memory. A turn takes over the carry of the turn before it, or releases it, and releases all its intermediate values. The first turn does
// not overwrite the initial arrays, which have a second name until its commands have been dispatched: others may read them.
//
// Ends. If the predicate is false, the expected arrays of the loop become the last carry. If a turn fails on any host, the leader ends the loop, and
// these arrays fail with that error, which names the node and the turn. If a host of the loop has gone, each of the others ends the loop itself.
//
// Invariants:
//   TU-1  all hosts that stay run the same number of turns, unless a host of the loop has gone or its session has ended
//   TU-2  the loop's op is answered once, after all commands of its turns; each lease's op is answered once
//   TU-3  a lease gives up its place when its last turn has been dispatched, or when the loop has ended
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/execute/run_context.h"
#include "pathways/worker/transfer/frame_channel.h"

namespace pw::worker {

class Loops final : private FrameChannel::TurnReceiver {
 public:
  explicit Loops(RunContext of);
  ~Loops() override;

  // A BeginLoop or a LoopLease.
  void Handle(const pathways::v1::Command& command);
  // Ends the loops of the session.
  void ReleaseOwner(SessionId session);

  int64_t running() const { return static_cast<int64_t>(loops_.size()); }

 private:
  struct LeaseState;
  using LeaseRef = std::shared_ptr<LeaseState>;
  struct Loop;
  using LoopRef = std::shared_ptr<Loop>;
  // The last decision that another host told about a loop whose command has not come.
  struct Early {
    HostId from;
    pathways::v1::LoopTurn turn;
    absl::Status failure;  // of another host, if this is the leader
  };
  static constexpr size_t kMostEarly = 4096;
  static constexpr uint32_t kMostCarried = 1u << 20;

  // FrameChannel::TurnReceiver
  void OnTurn(HostId from, const pathways::v1::LoopTurn& turn) override;
  void OnHostGone(HostId host, const absl::Status& status) override;

  void Begin(const pathways::v1::BeginLoop& command);
  void Lease(const pathways::v1::LoopLease& command);
  absl::Status Check(const pathways::v1::BeginLoop& command) const;
  absl::Status CheckLease(const Loop& loop, const pathways::v1::LoopLease& command) const;
  void TakeInputs(Loop& loop);
  void Keep(HostId from, const pathways::v1::LoopTurn& turn);
  void TakeEarly(const LoopRef& loop);

  void AwaitPredicate(const LoopRef& loop, ArrayId array);
  void Decide(const LoopRef& loop, const absl::StatusOr<bool>& follows);
  void Tell(const Loop& loop);
  void Fail(const LoopRef& loop, const absl::Status& error);
  void End(const LoopRef& loop, const absl::Status& status);
  void Abandon(const LoopRef& loop, const absl::Status& status);

  void Advance(const LoopRef& loop);
  LeaseRef LeaseWithRoom(Loop& loop);
  void BeginTurn(const LoopRef& loop, const LeaseRef& lease);
  pathways::v1::ProgramRun Bind(Loop& loop, const LeaseState& lease, uint64_t first_name);
  void EndTurn(const LoopRef& loop, const LeaseRef& lease, const absl::Status& error, double device_microseconds);
  void Close(LeaseState& lease);
  void AnswerIfOver(Loop& loop, LeaseState& lease);
  void Answer(const Loop& loop, LeaseState& lease);
  void Finish(const LoopRef& loop);
  void AnswerIfOver(const LoopRef& loop);

  const RunContext of_;
  absl::flat_hash_map<uint64_t, LoopRef> loops_;  // by op
  std::map<uint64_t, Early> early_;               // by op
};

}  // namespace pw::worker
