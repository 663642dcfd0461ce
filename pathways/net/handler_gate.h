// HandlerGate: lets calls through to an object of the user, until its owner shuts the gate.
//
// It answers one question: a connection is destroyed on some thread while its handler may be running on another. Detach returns
// only when no call is running and none will start. From the delivering thread itself, even from inside a call, it returns at
// once.
//
// Threads: Call on one thread at a time (the delivering one); Attach and Detach once each, on any thread.
#pragma once

#include <mutex>
#include <utility>

namespace pw::net {

template <class T>
class HandlerGate {
 public:
  void Attach(T* target) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!detached_) target_ = target;
  }

  // Runs f(target) unless detached or not yet attached; says whether it ran.
  template <class F>
  bool Call(F&& f) {
    std::lock_guard<std::mutex> lock(mu_);
    if (target_ == nullptr) return false;
    std::forward<F>(f)(target_);
    return true;
  }

  // `on_delivering_thread`: this is the thread that makes the calls. It may hold the lock already, so it does not take it, and
  // need not: nobody else calls.
  void Detach(bool on_delivering_thread) {
    std::unique_lock<std::mutex> lock(mu_, std::defer_lock);
    if (!on_delivering_thread) lock.lock();
    target_ = nullptr;
    detached_ = true;
  }

 private:
  std::mutex mu_;
  T* target_ = nullptr;
  bool detached_ = false;
};

}  // namespace pw::net
