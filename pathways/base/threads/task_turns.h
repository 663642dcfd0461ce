// TaskTurns: lets the owners of tasks take turns on a pool of threads. One owner's many tasks delay another owner's by one task at most, and
// cannot take all threads.
//
// Each owner's tasks begin in the order of posting. Of one owner, at most `most_of_one` tasks run at a time. So if the pool has more threads,
// tasks without an end keep only their own owner waiting.
//
// Any thread. May be destroyed before its tasks have run: they still run.
#pragma once

#include <memory>
#include <string>

#include "pathways/base/threads/executor.h"

namespace pw {

class TaskTurns {
 public:
  // `pool` runs the tasks, and outlives them. REQUIRES: most_of_one > 0.
  TaskTurns(Executor* pool, int most_of_one);

  void Post(const std::string& owner, Task task);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the pool's tasks
};

}  // namespace pw
