// Gathered<T>: what threads add up in a T until one of them takes it, or a sweep does.
//
//   Gathered<std::vector<int>> numbers;
//   if (numbers.Add([](std::vector<int>& all) { all.push_back(1); })) StartTimer();  // whose task calls numbers.Sweep()
//   std::vector<int> taken = numbers.Take();
//
// Invariant: what Add has added is taken once, at the latest by the sweep that is to come.
// Any thread. Take costs little where nothing was added.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

namespace pw {

template <class T>
class Gathered {
 public:
  // Calls `add`(T&). Returns whether the caller must see to a sweep: none is to come.
  template <class F>
  [[nodiscard]] bool Add(F add) {
    std::lock_guard<std::mutex> lock(mu_);
    add(value_);
    any_.store(true, std::memory_order_relaxed);
    return !std::exchange(sweep_, true);
  }

  // Returns what was added before, and not taken.
  T Take() {
    if (!any_.load(std::memory_order_relaxed)) return T();
    std::lock_guard<std::mutex> lock(mu_);
    any_.store(false, std::memory_order_relaxed);
    return std::exchange(value_, T());
  }

  // As Take, for the sweep. From then on, none is to come.
  T Sweep() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      sweep_ = false;
    }
    return Take();
  }

 private:
  std::atomic<bool> any_ = false;  // whoever comes after an Add sees it; others may not, and have no order with it
  std::mutex mu_;
  T value_;             // guarded by mu_
  bool sweep_ = false;  // guarded by mu_
};

}  // namespace pw
