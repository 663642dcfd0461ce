// Hazards: decides when a command may run on this host, so that overlapping commands behave as if run one after another.
//
// A command (a Task) arrives with the shards it reads and the subset that it consumes (donations that really happen). If it can
// run, it runs at once, inside Submit. Otherwise it is parked, and later commands go on. It waits for
//   - each shard that it reads, until the shard has a buffer or has failed (read after write);
//   - each shard that it consumes, until no earlier parked command reads it (write after read). No later command can read it: its
//     last name (object_store.h) was removed when the consumer arrived;
//   - any further condition that its owner adds (Hold): a program still being compiled, memory, a turn (launch_order.h).
// A buffer exists before its contents do. The device runtime orders the work on it, so nothing here waits for devices.
//
// Invariants:
//   HZ-1  a command ends exactly once. Its body `run` gets OK, or the error of its first failed input in the order of `reads`; it
//         is called again only after it returned kWait
//   HZ-2  commands that become free together run in order of arrival
//   HZ-3  no recursion: freeing a chain of parked commands of any length uses constant stack
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/worker/store/shard.h"

namespace pw::worker {

class Hazards {
 public:
  Hazards() = default;
  Hazards(const Hazards&) = delete;
  ~Hazards();  // forgets the parked commands; their bodies do not run

  enum class Outcome { kDone, kWait };  // kWait: the task was held again (Hold), and its body is called again after the Release

  // Most computations have few arguments: these need no memory of their own.
  using Shards = absl::InlinedVector<ShardRef, 4>;

  struct Task {
    Shards reads;
    Shards consumes;
    absl::AnyInvocable<Outcome(const absl::Status& inputs)> run;

    // Returns the number of parked commands that read the shard, not counting this one.
    int OtherReaders(const Shard& shard) const { return shard.parked_readers - (parked ? 1 : 0); }

   private:
    friend class Hazards;
    uint64_t sequence = 0;
    int waiting = 0;
    bool parked = false;
  };
  using TaskRef = std::shared_ptr<Task>;

  void Submit(TaskRef task);
  // Makes the task wait for one more Release. REQUIRES: called before Submit or from the task's own body.
  void Hold(const TaskRef& task) { ++task->waiting; }
  // Ends one Hold. The task may run inside this call, unless another task is running.
  void Release(const TaskRef& task) { Arrived(task); }

  // Number of commands submitted so far; shards record the last one that named them (Shard::last_used).
  uint64_t commands() const { return next_sequence_; }
  // Returns whether commands are free to run but have not run yet.
  bool about_to_run() const { return !free_.empty(); }
  int64_t parked() const { return static_cast<int64_t>(parked_.size()); }
  // Visits the parked commands, in no order.
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
