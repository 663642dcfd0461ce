// Fibers: runs several calls in turns on one thread.
//
// The launches of one small program on N devices wait for each other in its collectives. With a thread for each, every collective
// costs N-1 sleeps and wake-ups in the kernel, many times the program's own time. Here each launch has its own stack on the
// launching thread. A fiber that must wait for the others passes the thread to the next in about ten nanoseconds.
//
// Invariants:
//  1. A fiber never leaves the thread that called Run; Run returns when all bodies have returned.
//  2. A body waits for other bodies only through a Waiter. Any other blocking call would block all fibers: see CanTakeTurns in
//     programs/compile.cc.
//  3. Waiters also work on and between plain threads. When no fiber can run, the thread sleeps until a Waiter is notified.
//  4. Once a body has failed, the waits of the others in the same Run end as cancelled, because the failed body will not arrive.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace pw::pjrt_cpu {

class Waiter;

class Fibers {
 public:
  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;

  // Calls body(0) ... body(count - 1), which return whether they succeeded. REQUIRES: one Run at a time, and not inside a fiber.
  void Run(size_t count, absl::FunctionRef<bool(size_t)> body);

  // Returns whether the caller runs in a fiber.
  static bool InFiber() { return current_ != nullptr; }

 private:
  friend class Waiter;
  struct Fiber;

  static void Entry();
  void Resume(Fiber& fiber);
  void Yield();  // from a fiber back to Run
  bool Runnable(const Fiber& fiber) const;
  void SleepUntilRunnable();

  static thread_local Fibers* current_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  size_t count_ = 0;  // in this Run
  Fiber* running_ = nullptr;
  const absl::FunctionRef<bool(size_t)>* body_ = nullptr;
  void* scheduler_ = nullptr;  // the context of Run while a fiber runs
  bool failed_ = false;
  absl::Mutex mu_;  // for notifications from other threads
  absl::CondVar notified_;
};

// Waiter: a one-time event. The fiber or thread that made it waits for it.
class Waiter {
 public:
  Waiter();
  Waiter(const Waiter&) = delete;
  // Returns true once Notify has been called, or false if it never will be (invariant 4). REQUIRES: called by the maker.
  bool Wait();
  // Any thread, once. The waiter may be destroyed before this returns.
  void Notify();

 private:
  friend class Fibers;
  Fibers* const fibers_;  // null: a plain thread
  std::atomic<bool> set_{false};
  absl::Notification thread_;
};

}  // namespace pw::pjrt_cpu
