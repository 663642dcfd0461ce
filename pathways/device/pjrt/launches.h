// Launches: counts the launches that devices have not ended, so that the end of a process can wait for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

namespace pw::device::pjrt {

// Any thread.
class Launches {
 public:
  void Begin() {
    std::lock_guard<std::mutex> lock(mu_);
    ++under_way_;
  }
  void End() {
    std::lock_guard<std::mutex> lock(mu_);
    if (--under_way_ == 0) none_.notify_all();
  }
  // Returns true when no launch is under way; false if that takes longer than `patience`.
  bool AwaitNone(absl::Duration patience) {
    std::unique_lock<std::mutex> lock(mu_);
    return none_.wait_for(lock, absl::ToChronoNanoseconds(patience), [this] { return under_way_ == 0; });
  }

 private:
  std::mutex mu_;
  std::condition_variable none_;
  int64_t under_way_ = 0;  // guarded by mu_
};

}  // namespace pw::device::pjrt
