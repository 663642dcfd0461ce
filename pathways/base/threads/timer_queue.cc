#include "pathways/base/threads/timer_queue.h"

#include "pathways/base/threads/thread_name.h"

namespace pw {

TimerQueue::TimerQueue(Clock* clock) : clock_(clock) {
  thread_ = std::thread([this] {
    NameThisThread("timers");
    Run();
  });
}

TimerQueue::~TimerQueue() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void TimerQueue::After(absl::Duration delay, Executor* executor, Task task) {
  const absl::Time deadline = clock_->Now() + delay;
  bool first;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = entries_.emplace(deadline, Entry{executor, std::move(task)});
    first = it == entries_.begin();
  }
  if (first) wake_.notify_one();
}

void TimerQueue::Run() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!stopping_) {
    if (entries_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const absl::Duration left = entries_.begin()->first - clock_->Now();
    if (left > absl::ZeroDuration()) {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(left));
      continue;
    }
    Entry entry = std::move(entries_.begin()->second);
    entries_.erase(entries_.begin());
    lock.unlock();
    entry.executor->Post(std::move(entry.task));
    lock.lock();
  }
}

}  // namespace pw
