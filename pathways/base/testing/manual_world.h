// Test doubles of Executor, Clock and Timers: nothing runs, and no time passes, until the test says so. Everything runs on the
// test's thread. Tasks run in the order of posting or, given a seed, in random order (a strand's tasks keep their order).
// For tests only.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "pathways/base/testing/random.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"

namespace pw {

class ManualExecutor : public Executor {
 public:
  ManualExecutor() = default;
  explicit ManualExecutor(uint64_t seed) : random_(seed) {}

  void Post(Task task) override { queue_.push_back(std::move(task)); }
  // Runs a task. Returns false if there was none.
  bool RunOne() {
    if (queue_.empty()) return false;
    if (random_.has_value()) std::swap(queue_.front(), queue_[random_->Below(static_cast<uint32_t>(queue_.size()))]);
    Task task = std::move(queue_.front());
    queue_.pop_front();
    std::move(task)();
    return true;
  }
  void RunUntilIdle() {
    while (RunOne()) {
    }
  }
  size_t size() const { return queue_.size(); }

 private:
  std::deque<Task> queue_;
  std::optional<Random> random_;
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
  size_t armed() const { return entries_.size(); }  // timers that have not fired
  // Moves the clock to the next deadline, and posts the tasks that are due then. Returns false if there is none.
  bool Step() {
    if (entries_.empty()) return false;
    clock_->now = std::max(clock_->now, entries_.begin()->first);
    while (PostIfDue(clock_->now)) {
    }
    return true;
  }
  // Lets time pass: runs the timers that fall due, one after another, and all queued tasks before the first and after each.
  void Advance(absl::Duration duration) {
    const absl::Time end = clock_->now + duration;
    world_->RunUntilIdle();
    while (PostIfDue(end)) world_->RunUntilIdle();
    clock_->now = end;
  }

 private:
  // Moves the clock to the first deadline, if that is not after `end`, and posts its task. Returns whether it did.
  bool PostIfDue(absl::Time end) {
    if (entries_.empty() || entries_.begin()->first > end) return false;
    clock_->now = std::max(clock_->now, entries_.begin()->first);
    auto [executor, task] = std::move(entries_.begin()->second);
    entries_.erase(entries_.begin());
    executor->Post(std::move(task));
    return true;
  }

  ManualClock* const clock_;
  ManualExecutor* const world_;
  std::multimap<absl::Time, std::pair<Executor*, Task>> entries_;
};

}  // namespace pw
