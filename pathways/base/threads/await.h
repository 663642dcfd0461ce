// Await: blocks the calling thread until a future has its value. For threads of programs that use our libraries; our own
// threads never block.
#pragma once

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "pathways/base/threads/future.h"

namespace pw {

template <class T>
absl::StatusOr<T> Await(const Future<T>& future) {
  if (future.ready()) return future.value();
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

// Waits no longer than `limit`; returns DEADLINE_EXCEEDED after that.
template <class T>
absl::StatusOr<T> AwaitFor(const Future<T>& future, absl::Duration limit) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();  // the value may come after the wait
  auto result = promise->get_future();
  future.OnReady([promise](const absl::StatusOr<T>& value) { promise->set_value(value); });
  if (result.wait_for(absl::ToChronoMilliseconds(limit)) == std::future_status::ready) return result.get();
  return absl::DeadlineExceededError(absl::StrCat("nothing came within ", absl::FormatDuration(limit)));
}

}  // namespace pw
