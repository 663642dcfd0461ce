// Hazards: when a command may run, so that overlapping commands look as if run one after another.
//
// A command arrives with the shards it reads and those among them that it consumes (donations that really happen). It runs at
// once if it can, inside Submit. Otherwise it is parked, and later commands go on. It waits for
//   - shards it reads to leave pending (read after write);
//   - shards it consumes to have no earlier parked reader (write after read). Later readers cannot exist: the consumer has taken
//   away the
//     last name when it arrived;
//   - whatever else its owner holds it for (Hold): a program that is still being compiled, memory.
// Once a buffer exists, the device runtime keeps the order of the work on it, so nothing here waits for devices.
//
// Invariants:
//   HZ-1  a command runs exactly once, with OK or with the error of the first of its inputs, in the order of `reads`, that failed
//   HZ-2  commands that became free together run in the order in which they arrived
//   HZ-3  no recursion: however long a chain of parked commands is, freeing it uses constant stack
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/worker/shard.h"

namespace pw::worker {

class Hazards {
 public:
  Hazards() = default;
  Hazards(const Hazards&) = delete;
  ~Hazards();  // forgets the parked commands; their bodies do not run

  enum class Outcome { kDone, kWait };  // kWait: the body has held the task again and will be called once more

  struct Task {
    std::vector<ShardRef> reads;
    std::vector<ShardRef> consumes;
    absl::AnyInvocable<Outcome(const absl::Status& inputs)> run;

    // Parked commands that read the shard, this one aside.
    int OtherReaders(const Shard& shard) const { return shard.parked_readers - (parked ? 1 : 0); }

   private:
    friend class Hazards;
    uint64_t sequence = 0;
    int waiting = 0;
    bool parked = false;
  };
  using TaskRef = std::shared_ptr<Task>;

  void Submit(TaskRef task);
  // The task waits for one more thing, until Release. REQUIRES: called before Submit or from the task's own body.
  void Hold(const TaskRef& task) { ++task->waiting; }
  // From anywhere on the strand; the task may run inside this call unless another one is running.
  void Release(const TaskRef& task) { Arrived(task); }

  // Counts the commands that have come; shards remember the last that named them (Shard::last_used).
  uint64_t commands() const { return next_sequence_; }
  // Commands that nothing holds any more and that are about to run.
  bool about_to_run() const { return !free_.empty(); }
  int64_t parked() const { return static_cast<int64_t>(parked_.size()); }
  // In no order.
  void ForEachParked(absl::FunctionRef<void(const Task&)> visit) const {
    for (const TaskRef& task : parked_) visit(*task);
  }

 private:
  struct Later {
    bool operator()(const TaskRef& a, const TaskRef& b) const { return a->sequence > b->sequence; }
  };
  void Park(const TaskRef& task);
  void Unpark(const TaskRef& task);
  void Arrived(const TaskRef& task);
  void Drain();
  void RunNow(const TaskRef& task);

  uint64_t next_sequence_ = 0;
  absl::flat_hash_set<TaskRef> parked_;
  bool draining_ = false;
  std::priority_queue<TaskRef, std::vector<TaskRef>, Later> free_;  // may run
};

}  // namespace pw::worker
