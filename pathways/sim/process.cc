#include "pathways/sim/process.h"

#include <algorithm>
#include <utility>

namespace pw::sim {

struct Process::State {
  World* world;
  uint64_t tag;  // distinguishes processes in the hash
  absl::Duration task_time;
  double slowness = 1;
  int stops = 0;  // stops without a matching Continue yet
  bool dead = false;
  bool scheduled = false;
  absl::Time free_at;  // when the CPU is free
  std::deque<Task> queue;
};

Process::Process(World* world, std::string name, std::string island, absl::Duration task_time)
    : world_(world), name_(std::move(name)), island_(std::move(island)), state_(std::make_shared<State>()) {
  state_->world = world;
  state_->task_time = task_time;
  state_->tag = 0;
  for (char c : name_) state_->tag = state_->tag * 131 + static_cast<uint8_t>(c);
}

void Process::Post(Task task) {
  if (state_->dead) return;
  state_->queue.push_back(std::move(task));
  Schedule(state_);
}

void Process::Schedule(const std::shared_ptr<State>& state) {
  if (state->scheduled || state->stops > 0 || state->dead || state->queue.empty()) return;
  state->scheduled = true;
  state->world->At(state->free_at, [state] { RunOne(state); });
}

void Process::RunOne(const std::shared_ptr<State>& state) {
  state->scheduled = false;
  if (state->stops > 0 || state->dead || state->queue.empty()) return;
  Task task = std::move(state->queue.front());
  state->queue.pop_front();
  state->free_at = state->world->now() + state->task_time * state->slowness;
  state->world->Mix(state->tag);
  std::move(task)();
  Schedule(state);
}

void Process::After(absl::Duration delay, Executor* executor, Task task) {
  // The machine keeps the timer; a dead process ignores it.
  world_->After(delay, [state = state_, executor, task = std::move(task)]() mutable {
    if (!state->dead) executor->Post(std::move(task));
  });
}

absl::Time Process::Now() { return world_->now(); }

void Process::Stop() { ++state_->stops; }

void Process::Continue() {
  --state_->stops;
  Schedule(state_);
}

void Process::Kill() {
  state_->dead = true;
  std::deque<Task> dropped;
  dropped.swap(state_->queue);
}

void Process::Slow(double factor) { state_->slowness = factor; }
bool Process::dead() const { return state_->dead; }
bool Process::stopped() const { return state_->stops > 0; }

}  // namespace pw::sim
