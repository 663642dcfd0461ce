// Future<T>: a value or an error that arrives later, shared by all its waiters.
//
//   Promise<int> promise;
//   promise.future().OnReady(&strand, [](const absl::StatusOr<int>& v) { ... });
//   promise.Set(3);
//
// Invariants:
//   FU-1  a promise is set at most once; dropping an unset promise sets it to CANCELLED, so that no waiter waits for ever
//   FU-2  a callback runs exactly once, on the executor passed with it. Without an executor it runs inline, in Set, OnReady or
//         the promise's destructor: then it must not block, take locks of the setter, or run long
//   FU-3  callbacks run after the lock is released
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/threads/executor.h"

namespace pw {

struct Unit {};

template <class T>
class Future {
 public:
  using Callback = absl::AnyInvocable<void(const absl::StatusOr<T>&) &&>;

  Future() = default;  // no state: only assignment is allowed
  static Future Ready(absl::StatusOr<T> value);

  bool valid() const { return state_ != nullptr; }
  bool ready() const;
  // REQUIRES: ready()
  const absl::StatusOr<T>& value() const { return *state_->value; }

  void OnReady(Callback callback) const { OnReady(nullptr, std::move(callback)); }
  void OnReady(Executor* executor, Callback callback) const;

 private:
  template <class U>
  friend class Promise;
  struct Waiter {
    Executor* executor;
    Callback callback;
  };
  struct State {
    std::mutex mu;
    std::optional<absl::StatusOr<T>> value;  // guarded by mu until set, constant afterwards
    std::vector<Waiter> waiters;             // guarded by mu
  };
  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void Fire(const std::shared_ptr<State>& state, Waiter waiter);

  std::shared_ptr<State> state_;
};

template <class T>
class Promise {
 public:
  Promise() : state_(std::make_shared<State>()) {}
  Promise(Promise&&) = default;
  Promise& operator=(Promise&& other) noexcept {
    Cancel();
    state_ = std::move(other.state_);
    return *this;
  }
  ~Promise() { Cancel(); }

  Future<T> future() const { return Future<T>(state_); }
  // REQUIRES: not set before.
  void Set(absl::StatusOr<T> value) { Resolve(std::exchange(state_, nullptr), std::move(value)); }

 private:
  using State = typename Future<T>::State;
  static void Resolve(std::shared_ptr<State> state, absl::StatusOr<T> value);
  void Cancel() {
    if (state_) Resolve(std::exchange(state_, nullptr), absl::CancelledError("the producer of this value went away"));
  }

  std::shared_ptr<State> state_;
};

// ---- implementation ----

template <class T>
Future<T> Future<T>::Ready(absl::StatusOr<T> value) {
  auto state = std::make_shared<State>();
  state->value.emplace(std::move(value));
  return Future(std::move(state));
}

template <class T>
bool Future<T>::ready() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->value.has_value();
}

template <class T>
void Future<T>::OnReady(Executor* executor, Callback callback) const {
  Waiter waiter{executor, std::move(callback)};
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    if (!state_->value.has_value()) {
      state_->waiters.push_back(std::move(waiter));
      return;
    }
  }
  Fire(state_, std::move(waiter));
}

template <class T>
void Future<T>::Fire(const std::shared_ptr<State>& state, Waiter waiter) {
  if (waiter.executor == nullptr) {
    std::move(waiter.callback)(*state->value);
    return;
  }
  waiter.executor->Post([state, callback = std::move(waiter.callback)]() mutable { std::move(callback)(*state->value); });
}

template <class T>
void Promise<T>::Resolve(std::shared_ptr<State> state, absl::StatusOr<T> value) {
  std::vector<typename Future<T>::Waiter> waiters;
  {
    std::lock_guard<std::mutex> lock(state->mu);
    state->value.emplace(std::move(value));
    waiters.swap(state->waiters);
  }
  for (auto& waiter : waiters) Future<T>::Fire(state, std::move(waiter));
}

}  // namespace pw
