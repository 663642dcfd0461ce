// Launcher: calls the plugin's Execute for programs, in their order. Most plugins may wait there, so a thread makes the calls. If
// the plugin never waits, the caller's thread makes them, unless earlier calls are left. Programs that call Python functions
// always use the other thread, because the CPU plugin runs short programs inside Execute.
//
// Invariant LU-1: launches happen in the order of Launch. REQUIRES: one caller at a time.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "pathways/base/threads/thread_pool.h"
#include "pathways/device/pjrt/launches.h"

namespace pw::device::pjrt {

class Launcher {
 public:
  // `launches`: null, or counts the launches of programs until their end.
  explicit Launcher(bool at_once, std::shared_ptr<Launches> launches = nullptr)
      : at_once_(at_once), launches_(std::move(launches)) {}

  const std::shared_ptr<Launches>& launches() const { return launches_; }

  template <class F>
  void Launch(bool may_wait, F launch) {
    if (at_once_ && !may_wait && left_.load(std::memory_order_acquire) == 0) return launch();
    left_.fetch_add(1, std::memory_order_relaxed);
    thread_.Post([this, launch = std::move(launch)]() mutable {
      launch();
      left_.fetch_sub(1, std::memory_order_release);
    });
  }

 private:
  const bool at_once_;
  const std::shared_ptr<Launches> launches_;
  std::atomic<int> left_ = 0;  // launches that the thread has not made
  ThreadPool thread_{"launcher", 1};
};

}  // namespace pw::device::pjrt
