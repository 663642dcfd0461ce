// Fibers: several calls that take turns on one thread.
//
// The launches of one small program on N devices meet in its collectives. With a thread each, every meeting costs N-1 sleeps and
// N-1 wake-ups by the kernel, many times what the program itself takes. Here each launch has a stack of its own on the launching
// thread; one that must wait for the others hands the thread to the next, in about ten nanoseconds.
//
// Invariants:
//  1. A fiber never leaves the thread that called Run; Run returns when all bodies have.
//  2. A body waits for other bodies only through a Waiter. Anything else that blocks would block them all: see OnFibers in compile.cc.
//  3. Waiters work on and across plain threads too. When no fiber can go on, the thread sleeps until a Waiter is notified.
//  4. Once a body has failed, the waits of the others in the same Run end as cancelled: whoever failed will not come.
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

  // Calls body(0) ... body(count - 1), which say whether they succeeded. REQUIRES: one Run at a time, and not from inside a fiber.
  void Run(size_t count, absl::FunctionRef<bool(size_t)> body);

  // Whether the calling code is running in a fiber.
  static bool InFiber() { return current_ != nullptr; }

 private:
  friend class Waiter;
  struct Fiber;

  static void Entry();
  void Resume(Fiber& fiber);
  void Yield();  // from a fiber, back to Run
  bool Runnable(const Fiber& fiber) const;
  void SleepUntilRunnable();

  static thread_local Fibers* current_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  size_t count_ = 0;  // of this Run
  Fiber* running_ = nullptr;
  const absl::FunctionRef<bool(size_t)>* body_ = nullptr;
  void* scheduler_ = nullptr;  // the context of Run while a fiber runs
  bool failed_ = false;
  absl::Mutex mu_;  // for notifications from other threads
  absl::CondVar notified_;
};

// What the fiber or thread that made it waits for.
class Waiter {
 public:
  Waiter();
  Waiter(const Waiter&) = delete;
  // Returns true once Notify has been called, false if it will not be (invariant 4). REQUIRES: the maker calls.
  bool Wait();
  // From any thread, once. The waiter may be gone when this returns.
  void Notify();

 private:
  friend class Fibers;
  Fibers* const fibers_;  // null: a plain thread
  std::atomic<bool> set_{false};
  absl::Notification thread_;
};

}  // namespace pw::pjrt_cpu
