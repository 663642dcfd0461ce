// The order in which executions are launched: on every device exactly the order in which the controller's gang scheduler granted
// them (pathways/gang), whoever's they are.
//
// An execution takes its turn in the queue of each of its local devices when it is granted: with its command, or later, when a
// Grant names its gang. It may launch once it heads all of them; its inputs and memory are awaited at the head, so that nothing
// overtakes it. One that fails, for whatever reason, leaves the queues like one that was launched.
//
// Also here: how long each execution kept its devices busy, which is what the scheduler shares out. Launched one after the
// other on a device, an execution has it from the end of its predecessor, or its own launch if that is later.
//
// Invariants:
//   LO-1  on each device, executions leave in the order of their grants
//   LO-2  a turn that does not head all its queues holds its task exactly once, and nothing else does for this reason
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/device/device.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/hazards.h"

namespace pw::worker {

class LaunchOrder {
 public:
  LaunchOrder(int devices, Hazards* hazards) : hazards_(hazards), queues_(devices), busy_until_(devices, absl::InfinitePast()) {}

  // One execution's place. Part of it; must stay where it is from Enter to Leave.
  struct Turn {
    absl::Status refused;                // why it must not be launched
    std::function<void()> when_granted;  // called when it takes its turn; may be null

   private:
    friend class LaunchOrder;
    Hazards::TaskRef task;
    const std::vector<int>* devices = nullptr;
    SessionId session;
    int behind = 0;  // queues that it is in and does not head
    bool queued = false;
    bool held = false;
  };

  // The task waits for its turn; `gang` 0: it is granted now. REQUIRES: the task has not been submitted; `devices` outlives it.
  void Enter(Turn* turn, uint64_t gang, SessionId session, const std::vector<int>* devices, Hazards::TaskRef task);
  // It has been launched, or never will be.
  void Leave(Turn* turn);

  void Grant(const pathways::v1::Grant& command);
  // What the session has not been granted is refused.
  void ReleaseOwner(SessionId session);

  // Device time, summed over its devices, of an execution that has ended now.
  double Charge(const std::vector<int>& devices, absl::Time launched, absl::Time ended);
  // The same where the runtime says when they were busy with it. Ends may be told in another order than they came.
  double Charge(const std::vector<int>& devices, const device::Interval& busy);

  // Of all executions so far that have ended well: how many, and what Charge gave for them.
  uint64_t ended() const { return ended_; }
  double device_microseconds() const { return device_microseconds_; }

  // Tasks that cannot run before another one is launched or granted.
  int64_t held() const { return held_; }

 private:
  void Queue(Turn* turn);
  void Hold(Turn* turn);
  void Unhold(Turn* turn);
  void Refuse(uint64_t gang, const absl::Status& status);
  double Count(double microseconds);

  Hazards* const hazards_;
  std::vector<std::deque<Turn*>> queues_;
  absl::flat_hash_map<uint64_t, std::vector<Turn*>> ungranted_;  // by gang, in the order of arrival
  std::vector<absl::Time> busy_until_;
  int64_t held_ = 0;
  uint64_t ended_ = 0;
  double device_microseconds_ = 0;
};

}  // namespace pw::worker
