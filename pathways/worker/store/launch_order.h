// LaunchOrder: makes the worker launch executions on each device in exactly the order in which the controller's gang scheduler
// granted them (pathways/gang), across all sessions. It launches nothing itself: it holds the executions' tasks (hazards.h).
//
// When an execution is granted, it joins the queue of each of its local devices: on arrival, or when a later Grant names its
// gang. It may launch once it heads all these queues. If it still waits for inputs or memory then, it stays at the head, and
// nothing overtakes it. A failed execution leaves the queues like a launched one.
//
// A *lease* is a gang whose executions come later: those of the turns of a loop (execute/loops.h). When it is granted, the lease itself
// takes a place in the queue of each of its devices, and keeps it until it is closed and its executions have left. They launch in the order
// of their arrival while the lease heads their queues. So the order of gangs is the same on all hosts, although the hosts begin a turn at different
// times.
//
// LaunchOrder also measures how long each execution kept its devices busy, for the scheduler's accounting. On a device, an
// execution counts from the end of its predecessor, or from its own launch if that is later.
//
// Invariants:
//   LO-1  on each device, executions leave in the order of their grants
//   LO-2  a turn that waits for its grant, or does not head all its queues, holds its task exactly once
//   LO-3  a lease leaves a queue once it is closed, all its executions on the device have left, and it heads the queue
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/device/device.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/hazards.h"

namespace pw::worker {

class LaunchOrder {
  struct Lease;

 public:
  LaunchOrder(int devices, Hazards* hazards) : hazards_(hazards), queues_(devices), busy_until_(devices, absl::InfinitePast()) {}

  // One execution's place in the queues; a member of the execution. Must not move between Enter and Leave.
  struct Turn {
    absl::Status refused;                // not OK: it is never granted, and its task must fail with this error
    std::function<void()> when_granted;  // called when it is granted, before it joins the queues; may be null

   private:
    friend class LaunchOrder;
    Hazards::TaskRef task;
    const std::vector<int>* devices = nullptr;
    SessionId session;
    std::shared_ptr<Lease> lease;  // null: it is in no lease
    int behind = 0;                // number of queues that it is in but does not head
    bool queued = false;
    bool held = false;
  };

  // Makes the task wait for its turn. `gang` 0: granted now. REQUIRES: the task is not submitted yet; `devices` outlives `turn`.
  void Enter(Turn* turn, uint64_t gang, SessionId session, const std::vector<int>* devices, Hazards::TaskRef task);
  // Removes an execution that was launched, or never will be. Called by its task, so the turn heads its queues or was refused.
  void Leave(Turn* turn);

  // Opens the lease of a gang. Executions that enter with this gang are in it. `granted`: now; else by a Grant.
  // REQUIRES: the gang has no lease yet.
  void OpenLease(uint64_t gang, bool granted, SessionId session, const std::vector<int>& devices);
  // No more executions enter with this gang. Does nothing if it has no lease.
  void CloseLease(uint64_t gang);

  // Takes the scheduler's decisions: gangs granted, in this order, and gangs refused.
  void Grant(const pathways::v1::Grant& command);
  // Refuses all ungranted turns and leases of the session.
  void ReleaseOwner(SessionId session);

  // Returns the device time in microseconds, summed over its devices, of an execution that has just ended.
  double Charge(const std::vector<int>& devices, absl::Time launched, absl::Time ended);
  // The same, if the runtime reports when the devices were busy. Calls may come in another order than the executions ended.
  double Charge(const std::vector<int>& devices, const device::Interval& busy);

  // Number of executions that ended without error, and the sum of their device time.
  uint64_t ended() const { return ended_; }
  double device_microseconds() const { return device_microseconds_; }

  // Number of tasks held now.
  int64_t held() const { return held_; }

 private:
  struct Lease {
    SessionId session;
    std::map<int, std::deque<Turn*>> inside;  // its executions that have not left, by device
    std::vector<Turn*> untold;                // those that do not know of the grant
    absl::Status refused;
    bool granted = false;
    bool closed = false;
  };
  using LeaseRef = std::shared_ptr<Lease>;
  struct Entry {  // of a queue: a turn or a lease
    Turn* turn = nullptr;
    LeaseRef lease;
  };

  void EnterLease(Turn* turn, const LeaseRef& lease);
  void GrantLease(const LeaseRef& lease);
  void RefuseLease(const LeaseRef& lease, const absl::Status& status);
  bool Heads(const LeaseRef& lease, int device) const;
  void NewHead(int device);
  void Queue(Turn* turn);
  void Hold(Turn* turn);
  void Unhold(Turn* turn);
  void Refuse(uint64_t gang, const absl::Status& status);
  double Count(double microseconds);

  Hazards* const hazards_;
  std::vector<std::deque<Entry>> queues_;
  absl::flat_hash_map<uint64_t, std::vector<Turn*>> ungranted_;  // by gang, in the order of arrival
  absl::flat_hash_map<uint64_t, LeaseRef> leases_;               // that are not closed, or not granted, by gang
  std::vector<absl::Time> busy_until_;
  int64_t held_ = 0;
  uint64_t ended_ = 0;
  double device_microseconds_ = 0;
};

}  // namespace pw::worker
