#include "pathways/base/threads/task_turns.h"

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace pw {

struct TaskTurns::State : std::enable_shared_from_this<TaskTurns::State> {
  struct Owner {
    std::deque<Task> tasks;
    int running = 0;
  };

  State(Executor* pool, int most_of_one) : pool(pool), most_of_one(most_of_one) {}

  // Each task has one turn in the pool, or is one of those that are passed over.
  void PostTurn() {
    pool->Post([self = shared_from_this()] { self->RunNext(); });
  }

  void RunNext() {
    std::unique_lock<std::mutex> lock(mu);
    const auto next = FindNext();
    if (next == owners.end()) {
      ++passed_over;  // all owners of waiting tasks have as many running as they may: one that ends gives the turn back
      return;
    }
    last = next->first;
    Owner& owner = next->second;  // stays in the map while it runs a task
    Task task = std::move(owner.tasks.front());
    owner.tasks.pop_front();
    ++owner.running;
    lock.unlock();
    std::move(task)();
    task = nullptr;  // destroys its captures before the next task starts
    lock.lock();
    if (--owner.running == 0 && owner.tasks.empty()) owners.erase(next);
    const bool give_back = passed_over > 0;
    if (give_back) --passed_over;
    lock.unlock();
    if (give_back) PostTurn();
  }

  // Returns the owner after the last one, round and round, that has a task and may run it. REQUIRES: the lock.
  std::map<std::string, Owner>::iterator FindNext() {
    const auto start = owners.upper_bound(last);
    const auto may_run = [this](const auto& entry) { return !entry.second.tasks.empty() && entry.second.running < most_of_one; };
    for (auto it = start; it != owners.end(); ++it) {
      if (may_run(*it)) return it;
    }
    for (auto it = owners.begin(); it != start; ++it) {
      if (may_run(*it)) return it;
    }
    return owners.end();
  }

  Executor* const pool;
  const int most_of_one;
  std::mutex mu;
  std::map<std::string, Owner> owners;  // guarded by mu: those with tasks that wait or run
  std::string last;                     // guarded by mu: the owner that had the last turn
  int passed_over = 0;                  // guarded by mu: turns that found no task that may run
};

TaskTurns::TaskTurns(Executor* pool, int most_of_one) : state_(std::make_shared<State>(pool, most_of_one)) {}

void TaskTurns::Post(const std::string& owner, Task task) {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->owners[owner].tasks.push_back(std::move(task));
  }
  state_->PostTurn();
}

}  // namespace pw
