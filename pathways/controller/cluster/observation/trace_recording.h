// TraceRecording: records a trace of the whole cluster. All processes start and stop recording, and their events are converted to
// the controller's clock. At most one recording runs at a time. Strand-confined.
#pragma once

#include <functional>
#include <memory>
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
  };
  // `present` returns the hosts that are in the cluster now. All pointers must outlive this.
  TraceRecording(Fabric* fabric, Housekeeping* housekeeping, const Environment& environment,
                 std::function<std::vector<HostId>()> present);

  // Records for `duration`, at most `max_events` events of each process. `done` runs once, in a task of its own. FAILED_PRECONDITION if
  // another recording runs.
  void Start(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done);

 private:
  struct Underway;

  void Gather();
  void Finish();

  Fabric* const fabric_;
  Housekeeping* const housekeeping_;
  const Environment environment_;
  const std::function<std::vector<HostId>()> present_;
  std::shared_ptr<Underway> underway_;  // null: nothing is recorded
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
