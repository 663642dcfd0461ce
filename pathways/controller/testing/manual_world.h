// An executor, a clock and timers that stand still until a test moves them: everything runs on the test's thread, in a fixed order.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"

namespace pw::controller {

class ManualExecutor : public Executor {
 public:
  void Post(Task task) override { queue_.push_back(std::move(task)); }
  // Returns false if there is nothing to run.
  bool RunOne() {
    if (queue_.empty()) return false;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    std::move(task)();
    return true;
  }
  void RunUntilIdle() {
    while (RunOne()) {
    }
  }

 private:
  std::deque<Task> queue_;
};

class ManualClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::FromUnixSeconds(1000);
};

class ManualTimers : public Timers {
 public:
  ManualTimers(ManualClock* clock, ManualExecutor* world) : clock_(clock), world_(world) {}
  void After(absl::Duration delay, Executor* executor, Task task) override {
    entries_.emplace(clock_->now + delay, std::pair(executor, std::move(task)));
  }
  // Lets time pass, and runs all tasks and timers that fall due.
  void Advance(absl::Duration duration) {
    const absl::Time end = clock_->now + duration;
    world_->RunUntilIdle();
    while (!entries_.empty() && entries_.begin()->first <= end) {
      clock_->now = std::max(clock_->now, entries_.begin()->first);
      auto [executor, task] = std::move(entries_.begin()->second);
      entries_.erase(entries_.begin());
      executor->Post(std::move(task));
      world_->RunUntilIdle();
    }
    clock_->now = end;
  }

 private:
  ManualClock* const clock_;
  ManualExecutor* const world_;
  std::multimap<absl::Time, std::pair<Executor*, Task>> entries_;
};

}  // namespace pw::controller
