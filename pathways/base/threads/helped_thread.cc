#include "pathways/base/threads/helped_thread.h"

#include <utility>

#include "pathways/base/threads/thread_name.h"

namespace pw {

HelpedThread::HelpedThread(std::string name) {
  thread_ = std::thread([this, name] {
    NameThisThread(name);
    Run();
  });
}

HelpedThread::~HelpedThread() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void HelpedThread::Post(Task task) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(task));
    wake = !running_ && helpers_ == 0;
  }
  if (wake) wake_.notify_one();
}

void HelpedThread::RunFirst(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  std::move(task)();
  task = nullptr;  // destroys its captures before the next task starts
  lock.lock();
}

void HelpedThread::Run() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    wake_.wait(lock, [this] { return ThreadMayRun() || (stopping_ && !running_ && queue_.empty()); });
    if (queue_.empty()) return;
    running_ = true;
    while (!queue_.empty()) RunFirst(lock);
    running_ = false;
  }
}

void HelpedThread::Help() {
  bool wake;
  {
    std::unique_lock<std::mutex> lock(mu_);
    --helpers_;
    if (running_) return;  // the thread that runs tasks runs these too
    running_ = true;
    for (int i = 0; i < kMostTasks && !queue_.empty(); ++i) RunFirst(lock);
    running_ = false;
    wake = ThreadMayRun() || stopping_;
  }
  if (wake) wake_.notify_one();
}

Helping::Helping(HelpedThread* thread) : thread_(thread) {
  if (thread_ == nullptr) return;
  std::lock_guard<std::mutex> lock(thread_->mu_);
  ++thread_->helpers_;
}

}  // namespace pw
