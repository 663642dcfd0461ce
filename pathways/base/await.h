// Await: blocks the calling thread until a future has its value. For threads of programs that use our libraries; our own threads never block.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "pathways/base/future.h"

namespace pw {

template <class T>
absl::StatusOr<T> Await(const Future<T>& future) {
  std::mutex mu;
  std::condition_variable changed;
  std::optional<absl::StatusOr<T>> result;
  future.OnReady([&](const absl::StatusOr<T>& value) {
    std::lock_guard<std::mutex> lock(mu);  // held while notifying: the waiter destroys `changed` right after
    result = value;
    changed.notify_all();
  });
  std::unique_lock<std::mutex> lock(mu);
  changed.wait(lock, [&] { return result.has_value(); });
  return *std::move(result);
}

}  // namespace pw
