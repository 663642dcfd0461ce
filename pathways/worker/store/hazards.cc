#include "pathways/worker/store/hazards.h"

#include <utility>

namespace pw::worker {

// Breaks the cycle between a parked task and the shards it waits for.
Hazards::~Hazards() {
  for (const TaskRef& task : parked_) {
    task->run = nullptr;
    task->reads.clear();
    task->consumes.clear();
  }
}

void Hazards::Submit(TaskRef task) {
  task->sequence = next_sequence_++;
  for (const ShardRef& shard : task->reads) {
    shard->last_used = task->sequence;
    if (!shard->pending()) continue;
    ++task->waiting;
    shard->OnLive([this, task] { Arrived(task); });
  }
  for (const ShardRef& shard : task->consumes) {
    if (shard->parked_readers == 0) continue;
    ++task->waiting;
    shard->when_unread.push_back([this, task] { Arrived(task); });
  }
  if (task->waiting > 0) return Park(task);
  RunNow(task);
}

void Hazards::Park(const TaskRef& task) {
  if (task->parked) return;
  task->parked = true;
  parked_.insert(task);
  for (const ShardRef& shard : task->reads) ++shard->parked_readers;
  for (const ShardRef& shard : task->consumes) --shard->parked_readers;  // the task does not wait for itself
}

void Hazards::Unpark(const TaskRef& task) {
  if (!task->parked) return;
  task->parked = false;
  parked_.erase(task);
  for (const ShardRef& shard : task->consumes) ++shard->parked_readers;
  for (const ShardRef& shard : task->reads) {
    if (--shard->parked_readers > 0 || shard->when_unread.empty()) continue;
    std::vector<Shard::Callback> waiters;
    waiters.swap(shard->when_unread);
    for (Shard::Callback& waiter : waiters) std::move(waiter)();
  }
}

void Hazards::Arrived(const TaskRef& task) {
  if (--task->waiting > 0) return;
  free_.push(task);
  Drain();
}

void Hazards::Drain() {
  if (draining_) return;
  draining_ = true;
  while (!free_.empty()) {
    TaskRef task = free_.top();
    free_.pop();
    RunNow(task);
  }
  draining_ = false;
}

void Hazards::RunNow(const TaskRef& task) {
  const bool outer = std::exchange(draining_, true);
  absl::Status status;
  for (const ShardRef& shard : task->reads) {
    if (!shard->failed()) continue;
    status = shard->error();
    break;
  }
  const Outcome outcome = task->run(status);
  if (outcome == Outcome::kDone) {
    Unpark(task);
    task->run = nullptr;  // frees the task's shards now, even if others still refer to the task
    task->reads.clear();
    task->consumes.clear();
  } else {
    Park(task);
  }
  draining_ = outer;
  if (!outer) Drain();
}

}  // namespace pw::worker
