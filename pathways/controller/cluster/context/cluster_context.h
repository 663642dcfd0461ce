// ClusterContext: what all parts of the cluster use: its settings, its clock, and its strand.
//
// A part gets a copy, and the other parts that it uses as pointers or callbacks. ClusterImpl owns all parts and declares a part after
// those that it uses, so they outlive it.
//
// Invariant CO-1: a task of Post or After runs only while the cluster lives, and the cluster lives until the task has ended. So
// the task may use the part that made it. Tasks that come later are dropped.
#pragma once

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/controller/options.h"

namespace pw::controller {

class ClusterContext {
 public:
  // `cluster` owns all that the pointers refer to, except the timers and the clock, which outlive it.
  ClusterContext(std::weak_ptr<const void> cluster, const ClusterOptions* options, Clock* clock, Timers* timers, Executor* strand)
      : cluster_(std::move(cluster)), options_(options), clock_(clock), timers_(timers), strand_(strand) {}

  const ClusterOptions& options() const { return *options_; }
  absl::Time Now() const { return clock_->Now(); }
  Clock* clock() const { return clock_; }
  Timers* timers() const { return timers_; }
  Executor* strand() const { return strand_; }

  // Runs `task` on the strand. Any thread, also after the cluster's end.
  template <class F>
  void Post(F task) const {
    if (const auto keep = cluster_.lock()) strand_->Post(WhileAlive(std::move(task)));
  }
  // Runs `task` on the strand when the time has passed.
  template <class F>
  void After(absl::Duration delay, F task) const {
    timers_->After(delay, strand_, WhileAlive(std::move(task)));
  }
  // Calls `done` with the value in a task of its own, never inside the call.
  template <class T, class Callback>
  void Answer(T value, Callback done) const {
    Post([value = std::move(value), done = std::move(done)]() mutable { std::move(done)(std::move(value)); });
  }

 private:
  template <class F>
  Task WhileAlive(F task) const {
    return [cluster = cluster_, task = std::move(task)]() mutable {
      const auto keep = cluster.lock();
      if (keep == nullptr) return;
      F run = std::move(task);  // ends before the cluster, which its captures may need
      std::move(run)();
    };
  }

  std::weak_ptr<const void> cluster_;
  const ClusterOptions* options_;
  Clock* clock_;
  Timers* timers_;
  Executor* strand_;
};

}  // namespace pw::controller
