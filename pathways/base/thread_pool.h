// ThreadPool: a fixed set of threads that run posted tasks in the order of posting (one thread: strictly one after another).
//
// Destruction runs everything already posted, then joins. Tasks posted during destruction by running tasks still run.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pathways/base/executor.h"

namespace pw {

class ThreadPool : public Executor {
 public:
  // `name` shows in debuggers and `top -H`; at most 15 characters of it are kept by the system.
  ThreadPool(std::string name, int threads);
  ~ThreadPool() override;

  void Post(Task task) override;

 private:
  void Run();

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<Task> queue_;  // guarded by mu_
  int idle_ = 0;            // guarded by mu_; no wake-up is paid while every thread is busy
  bool stopping_ = false;   // guarded by mu_
  std::vector<std::thread> threads_;
};

}  // namespace pw
