// HandlerGate: passes calls to a target object, and stops when the target's owner detaches it, so that the target may be destroyed.
//
// One thread may destroy a connection while another thread runs the connection's handler. Detach returns only when no call is
// running and none will start. On the delivering thread, even inside a call, it returns at once.
//
// Threads: Call runs on one thread at a time (the delivering thread). Attach and Detach are called once each, on any thread.
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

  // Runs f(target) unless detached or not yet attached. Returns whether it ran.
  template <class F>
  bool Call(F&& f) {
    std::lock_guard<std::mutex> lock(mu_);
    if (target_ == nullptr) return false;
    std::forward<F>(f)(target_);
    return true;
  }

  // `on_delivering_thread`: the caller runs on the thread that makes the calls. Then Detach takes no lock: that thread may hold
  // it already, and no other thread makes calls.
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
