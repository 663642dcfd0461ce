// Strand: runs tasks one at a time, in the order of posting, on an executor that may have many threads.
//
// Stateful objects live on one strand and are used only from it; this replaces locks.
// Invariants:
//   SN-1  two tasks of one strand never run at the same time, and each sees all writes of the tasks before it
//   SN-2  tasks run in the order in which Post was called
//   SN-3  a task is never run inside Post
// A strand may be destroyed with tasks still queued: they run, then its state is freed.
#pragma once

#include <memory>

#include "pathways/base/threads/executor.h"

namespace pw {

class Strand : public Executor {
 public:
  // `executor` must outlive every task posted here.
  explicit Strand(Executor* executor);
  ~Strand() override;

  void Post(Task task) override;

  // Destroys queued tasks without running them, including tasks posted meanwhile. For owners whose queued tasks may hold the last
  // reference to an object that refers to the owner: the owner calls this before its own members are destroyed.
  void DropQueued();

  // Returns true on the thread that is running a task of this strand. For assertions.
  bool RunsHere() const;

  // Calls `hook` on the strand each time its queue has run empty, so that tasks can batch output and flush it then. Set once,
  // before the first Post.
  void SetIdleHook(absl::AnyInvocable<void()> hook);

 private:
  struct State;
  static void Drain(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace pw
