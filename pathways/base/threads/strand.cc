#include "pathways/base/threads/strand.h"

#include <deque>
#include <mutex>
#include <utility>

namespace pw {
namespace {
// Tasks that one turn runs before other users of the executor get the thread.
constexpr int kTasksPerTurn = 256;

thread_local const void* running_strand = nullptr;
}  // namespace

struct Strand::State {
  Executor* executor;
  std::mutex mu;
  std::deque<Task> queue;  // guarded by mu
  bool scheduled = false;  // guarded by mu: a Drain is queued or running
  absl::AnyInvocable<void()> idle_hook;
};

Strand::Strand(Executor* executor) : state_(std::make_shared<State>()) { state_->executor = executor; }
Strand::~Strand() = default;

void Strand::SetIdleHook(absl::AnyInvocable<void()> hook) { state_->idle_hook = std::move(hook); }

void Strand::DropQueued() {
  for (;;) {
    std::deque<Task> dropped;
    {
      std::lock_guard<std::mutex> lock(state_->mu);
      dropped.swap(state_->queue);
    }
    if (dropped.empty()) return;
  }
}

bool Strand::RunsHere() const { return running_strand == state_.get(); }

void Strand::Post(Task task) {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->queue.push_back(std::move(task));
    if (state_->scheduled) return;
    state_->scheduled = true;
  }
  state_->executor->Post([state = state_] { Drain(state); });
}

void Strand::Drain(std::shared_ptr<State> state) {
  const void* outer = std::exchange(running_strand, state.get());
  for (int budget = kTasksPerTurn;; --budget) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(state->mu);
      if (state->queue.empty() && state->idle_hook) {
        lock.unlock();
        state->idle_hook();
        lock.lock();
      }
      if (state->queue.empty()) {
        state->scheduled = false;
        break;
      }
      if (budget <= 0) {
        lock.unlock();
        state->executor->Post([state] { Drain(state); });
        break;
      }
      task = std::move(state->queue.front());
      state->queue.pop_front();
    }
    std::move(task)();
  }
  running_strand = outer;
}

}  // namespace pw
