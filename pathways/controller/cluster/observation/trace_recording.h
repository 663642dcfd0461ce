// TraceRecording: records a trace of the whole cluster. All processes start and stop recording, and their events are converted to
// the controller's clock. At most one recording runs at a time: an operator's takes the place of a user's, and a user's that of another's which has
// lasted for a while.
//
// A profile is a recording from which each host also makes an XSpace, the format of XProf (worker/execute/profiles.h). It belongs to the session
// that started it, which alone stops and reads it. The hosts keep the XSpaces. The controller passes them on piece by piece, and keeps none.
//
// A profile of `everything` (session::ProfileOptions) is for operators; any other profile has the events of its own session only.
//
// Invariants:
//   TRC-1  a profile that is not of everything gets no event of another session, and no trace
//   TRC-2  a recording ends: after its time, with its session, or kLongestProfile after its start
//   TRC-3  the hosts keep the XSpaces of at most one profile, and none when its session has ended
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/housekeeping/housekeeping.h"
#include "pathways/controller/session.h"

namespace pw::controller {

class TraceRecording {
 public:
  struct Environment {
    Executor* strand;
    Timers* timers;
    Clock* clock;
    std::function<absl::Time()> wall_clock;  // null: traces do not say when they began
  };
  // `present` returns the hosts that are in the cluster now. All pointers must outlive this.
  TraceRecording(Fabric* fabric, Housekeeping* housekeeping, const Environment& environment,
                 std::function<std::vector<HostId>()> present);

  // Records for `duration`, at most `max_events` events of each process. `done` runs once, in a task of its own. FAILED_PRECONDITION if
  // another recording runs.
  void Start(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done);

  // These have the contracts of session::Profiles.
  void StartProfile(SessionId session, const session::ProfileOptions& options, session::StatusCallback done);
  void StopProfile(SessionId session, ResultCallback<session::ClusterProfile> done);
  void ReadProfile(SessionId session, size_t host, uint64_t offset, ResultCallback<Bytes> done);
  void DropProfile(SessionId session);

 private:
  struct Underway;
  // A recorded profile, which the hosts keep.
  struct Kept {
    SessionId session;
    uint64_t recording = 0;
    std::vector<HostId> hosts;  // by their positions in ClusterProfile::hosts
  };
  using Wanted = ::pathways::v1::HostConfig::Recording;

  // Returns whether a recording of this session may begin (none: of an operator's tool). A recording of everything gives up one of a session: only operators
  // see everything, and no user may keep them from it. One of a session gives up another's that has lasted for session::kUndisturbedProfile: no user may
  // keep the others from theirs. FAILED_PRECONDITION: another runs.
  absl::Status MakeWay(bool everything, SessionId session);
  // Makes all processes record. `begun` runs when the controller itself does, or would, if the recording had not been dropped (`still`).
  void Begin(Wanted wanted, std::shared_ptr<Underway> underway, std::function<void(bool still)> begun);
  void Gather(absl::Duration timeout);
  void Finish();
  // Ends the recording of all hosts, and lets them keep only this profile.
  void Release(std::shared_ptr<const Kept> kept);
  // Answers in a task of its own.
  template <class Callback, class T>
  void Answer(Callback done, T value);

  Fabric* const fabric_;
  Housekeeping* const housekeeping_;
  const Environment environment_;
  const std::function<std::vector<HostId>()> present_;
  std::shared_ptr<Underway> underway_;  // null: nothing is recorded
  std::shared_ptr<const Kept> kept_;    // null: none
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
