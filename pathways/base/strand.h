// Strand: runs tasks one at a time, in the order of posting, on an executor that may have many threads.
//
// Stateful objects live on one strand and are touched only from it; that replaces locks.
// Invariants:
//   ST-1  two tasks of one strand never run at the same time, and one sees all writes of those before it
//   ST-2  tasks run in the order in which Post was called
//   ST-3  a task is never run inside Post
// A strand may be dropped with tasks still queued: they run, then its state goes.
#pragma once

#include <memory>

#include "pathways/base/executor.h"

namespace pw {

class Strand : public Executor {
 public:
  // `executor` must outlive every task posted here.
  explicit Strand(Executor* executor);
  ~Strand() override;

  void Post(Task task) override;

  // Destroys the tasks that wait, unrun, and what they hold; also what is posted meanwhile. For owners whose tasks may hold the last references to
  // things that refer to them: called while they are still whole.
  void DropQueued();

  // True on the thread that is running a task of this strand. For assertions.
  bool RunsHere() const;

  // Calls `hook` on the strand each time its queue has run empty: the moment to flush what the tasks have batched.
  // Set once, before the first Post.
  void SetIdleHook(absl::AnyInvocable<void()> hook);

 private:
  struct State;
  static void Drain(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace pw
