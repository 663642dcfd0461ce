// Gathered<T>: threads add to one T. Any thread may take all additions so far; a sweep, which the caller schedules, takes those
// that no thread has taken by then. Client uses it for requests that can wait (client/later_requests.h).
//
//   Gathered<std::vector<int>> numbers;
//   if (numbers.Add([](std::vector<int>& all) { all.push_back(1); })) StartTimer();  // the timer's task calls numbers.Sweep()
//   std::vector<int> taken = numbers.Take();
//
// Invariant: every addition is taken once, at the latest by the next sweep.
// Any thread. Take needs no lock if nothing was added.
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

  // Returns the additions that were not taken yet. It may miss one that another thread makes meanwhile.
  T Take() {
    if (!any_.load(std::memory_order_relaxed)) return T();
    std::lock_guard<std::mutex> lock(mu_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(value_, T());
  }

  // Take, for the sweep. No sweep is pending afterwards: the next Add asks for one.
  T Sweep() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      sweep_ = false;
    }
    return Take();
  }

 private:
  std::atomic<bool> any_ = false;  // relaxed: a Take that is not ordered after an Add may miss it
  std::mutex mu_;
  T value_;             // guarded by mu_
  bool sweep_ = false;  // guarded by mu_
};

}  // namespace pw
