// GrowingPool: every posted task runs at once, on a thread that is idle or on a new one, so tasks may wait for each other.
//
// For tasks that can block on others of their kind. Threads are kept for later tasks. Destruction waits for nobody, and may happen on
// one of the pool's own threads: what was posted still runs, then the threads end.
#pragma once

#include <memory>
#include <string>

#include "pathways/base/executor.h"

namespace pw {

class GrowingPool : public Executor {
 public:
  // `name` shows in debuggers and `top -H`; at most 15 characters of it are kept by the system.
  explicit GrowingPool(std::string name);
  ~GrowingPool() override;

  void Post(Task task) override;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the threads' too
};

}  // namespace pw
