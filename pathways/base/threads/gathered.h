// Gathered<T>: threads add to one T. Any thread may pass all additions so far on; a sweep, which the caller schedules, passes on
// those that no thread has passed on by then. Client uses it for requests that can wait (client/later_requests.h).
//
//   Gathered<std::vector<int>> numbers;
//   if (numbers.Add([](std::vector<int>& all) { all.push_back(1); })) StartTimer();  // the timer's task calls numbers.Sweep(...)
//   numbers.PassOn([](std::vector<int> taken) { queue.Push(taken, request); });
//
// Invariants:
//   GA-1  every addition is passed on once, at the latest by the next sweep
//   GA-2  when a thread passes on, its own earlier additions are in what it gets, or another thread's PassOn with them has returned.
//         So requests that a thread queues inside PassOn come behind its additions, whichever thread took these
// Any thread. PassOn needs no lock if nothing was added.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

namespace pw {

template <class T>
class Gathered {
 public:
  // Calls `add`(T&). Returns true if no sweep is pending: then the caller must schedule a call of Sweep.
  template <class F>
  [[nodiscard]] bool Add(F add) {
    std::lock_guard<std::mutex> lock(mu_);
    add(value_);
    any_.store(true, std::memory_order_relaxed);
    return !std::exchange(sweep_, true);
  }

  // Calls `consume`(T) with the additions that were not passed on yet, once, maybe with none. `consume` must not add.
  template <class F>
  void PassOn(F consume) {
    if (!any_.load(std::memory_order_acquire)) return consume(T());
    std::lock_guard<std::mutex> lock(mu_);
    consume(std::exchange(value_, T()));
    any_.store(false, std::memory_order_release);
  }

  // PassOn, for the sweep. No sweep is pending afterwards: the next Add asks for one.
  template <class F>
  void Sweep(F consume) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      sweep_ = false;
    }
    PassOn(std::move(consume));
  }

 private:
  // False: all additions before have been consumed. PassOn stores it after `consume` has returned (GA-2).
  std::atomic<bool> any_ = false;
  std::mutex mu_;
  T value_;             // guarded by mu_
  bool sweep_ = false;  // guarded by mu_
};

}  // namespace pw
