// HelpedThread: an executor of one thread, for which threads that post tasks may stand in.
//
// Handing work to another thread and waiting for it costs two wake-ups, more than small work itself. A caller that helps runs the tasks on its own
// thread instead, if nobody is running any:
//
//   {
//     Helping help(&thread);
//     thread.Post(...);  // wakes nobody
//   }                    // runs the tasks here, those that they post included
//
// Invariants:
//   HT-1  tasks run one at a time, in the order of Post, each after all writes of those before it
//   HT-2  a task is never run inside Post
//   HT-3  a helper runs at most kMostTasks, and none while another thread (or an outer task of its own) runs them. What is left runs on the thread
//   HT-4  no task waits for a helper that does not come: every task that was posted runs, help or no help
// The destructor runs all posted tasks, then joins. Any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "pathways/base/executor.h"

namespace pw {

class HelpedThread : public Executor {
 public:
  static constexpr int kMostTasks = 256;

  // Debuggers and `top -H` show `name`; the system keeps at most 15 characters of it.
  explicit HelpedThread(std::string name);
  ~HelpedThread() override;

  void Post(Task task) override;

 private:
  friend class Helping;
  void Run();
  void Help();
  // Runs the first task. REQUIRES: lock held, a task, and running_ set by the caller.
  void RunFirst(std::unique_lock<std::mutex>& lock);
  bool ThreadMayRun() const { return !running_ && helpers_ == 0 && !queue_.empty(); }

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<Task> queue_;  // guarded by mu_, as all below
  bool running_ = false;    // a thread runs tasks
  int helpers_ = 0;         // callers that have announced to run tasks, and do not yet
  bool stopping_ = false;
  std::thread thread_;
};

// Announces the caller's help, and gives it when destroyed. REQUIRES there: the caller holds no lock that a task may want.
class Helping {
 public:
  // Null: helps nobody.
  explicit Helping(HelpedThread* thread);
  ~Helping() {
    if (thread_ != nullptr) thread_->Help();
  }
  Helping(const Helping&) = delete;
  Helping& operator=(const Helping&) = delete;

 private:
  HelpedThread* const thread_;
};

}  // namespace pw
