// GrowingPool: every posted task runs at once, on a thread that is idle or on a new one, so tasks may wait for each other.
//
// Idle threads are kept for later tasks. The destructor does not wait and may run on one of the pool's own threads: posted tasks
// still run, then the threads end.
#pragma once

#include <memory>
#include <string>

#include "pathways/base/threads/executor.h"

namespace pw {

class GrowingPool : public Executor {
 public:
  // Debuggers and `top -H` show `name`; the system keeps at most 15 characters of it.
  explicit GrowingPool(std::string name);
  ~GrowingPool() override;

  void Post(Task task) override;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads
};

}  // namespace pw
