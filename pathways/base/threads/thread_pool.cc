#include "pathways/base/threads/thread_pool.h"

#include <utility>

#include "pathways/base/threads/thread_name.h"

namespace pw {

ThreadPool::ThreadPool(std::string name, int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, name] {
      NameThisThread(name);
      Run();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Post(Task task) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    queue_.push_back(std::move(task));
    wake = idle_ > 0;
  }
  if (wake) wake_.notify_one();
}

void ThreadPool::Run() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;  // stopping, and nothing left to run
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::move(task)();
    task = nullptr;  // destroys its captures before the next task starts
    lock.lock();
  }
}

}  // namespace pw
