#include "pathways/base/threads/growing_pool.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "pathways/base/threads/thread_name.h"

namespace pw {

struct GrowingPool::State {
  std::string name;
  std::mutex mu;
  std::condition_variable wake;
  std::deque<Task> queue;  // guarded by mu; never longer than `idle`
  size_t idle = 0;         // guarded by mu: threads that wait, or are starting and will wait
  bool stopping = false;   // guarded by mu

  void Run() {
    std::unique_lock<std::mutex> lock(mu);
    while (true) {
      wake.wait(lock, [this] { return stopping || !queue.empty(); });
      if (queue.empty()) return;
      --idle;
      Task task = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      std::move(task)();
      task = nullptr;  // destroys its captures before the next task starts
      lock.lock();
      ++idle;
    }
  }
};

GrowingPool::GrowingPool(std::string name) : state_(std::make_shared<State>()) { state_->name = std::move(name); }

GrowingPool::~GrowingPool() {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->stopping = true;
  }
  state_->wake.notify_all();
}

void GrowingPool::Post(Task task) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->queue.push_back(std::move(task));
  if (state_->idle >= state_->queue.size()) return state_->wake.notify_one();
  ++state_->idle;
  std::thread([state = state_] {
    NameThisThread(state->name);
    state->Run();
  }).detach();
}

}  // namespace pw
