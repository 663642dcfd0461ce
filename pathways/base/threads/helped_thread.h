// HelpedThread: an executor of one thread. A caller that posts tasks may also run them ("help") instead of waiting until that
// thread has run them. The PJRT plugin helps the thread of a cluster in its own process (bin/local_cluster.h).
//
// Handing a task to another thread and waiting for its end costs two wake-ups, more than a small task itself. A caller that helps
// runs the tasks on its own thread instead, unless another thread is running them:
//
//   {
//     Helping help(&thread);
//     thread.Post(...);  // wakes no thread
//   }                    // runs the tasks here, and the tasks that they post
//
// Invariants:
//   HT-1  tasks run one at a time, in the order of Post, each after all writes of those before it
//   HT-2  a task is never run inside Post
//   HT-3  a helper runs at most kMostTasks. It runs none while another thread runs tasks, or if it helps from inside a task. The
//         executor's thread runs the others
//   HT-4  every posted task runs, whether or not a helper comes
// The destructor runs all posted tasks, then joins. Any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "pathways/base/threads/executor.h"

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
  int helpers_ = 0;         // callers that have announced their help and have not given it yet
  bool stopping_ = false;
  std::thread thread_;
};

// Announces the caller's help, and gives it in the destructor. In between, the executor's thread begins no tasks if it was idle.
// REQUIRES in the destructor: the caller holds no lock that a task may take.
class Helping {
 public:
  // Does nothing if `thread` is null.
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
