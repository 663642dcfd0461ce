// ThreadPool: a fixed set of threads that run posted tasks in the order of posting (one thread: strictly one after another).
//
// The destructor runs all posted tasks, then joins. Tasks that running tasks post during destruction still run.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pathways/base/threads/executor.h"

namespace pw {

class ThreadPool : public Executor {
 public:
  // Debuggers and `top -H` show `name`; the system keeps at most 15 characters of it.
  ThreadPool(std::string name, int threads);
  ~ThreadPool() override;

  void Post(Task task) override;

 private:
  void Run();

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<Task> queue_;  // guarded by mu_
  int idle_ = 0;            // guarded by mu_; while it is 0, Post wakes no thread
  bool stopping_ = false;   // guarded by mu_
  std::vector<std::thread> threads_;
};

}  // namespace pw
