// Timers: run a task on an executor once a duration has passed.
//
// Timers is the interface (the simulator has its own implementation). TimerQueue is the real one: a thread that sleeps until the next
// deadline. A timer cannot be cancelled: its task checks whether it is still needed. Destroying a TimerQueue drops pending timers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"

namespace pw {

class Timers {
 public:
  virtual ~Timers() = default;
  virtual void After(absl::Duration delay, Executor* executor, Task task) = 0;
};

class TimerQueue : public Timers {
 public:
  explicit TimerQueue(Clock* clock);
  ~TimerQueue() override;

  void After(absl::Duration delay, Executor* executor, Task task) override;

 private:
  struct Entry {
    Executor* executor;
    Task task;
  };
  void Run();

  Clock* const clock_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::multimap<absl::Time, Entry> entries_;  // guarded by mu_
  bool stopping_ = false;                     // guarded by mu_
  std::thread thread_;
};

}  // namespace pw
