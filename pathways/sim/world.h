// World: simulated time. Everything in a simulated cluster is an event of one World, on one thread and in one order.
//
// Events at the same time run in the order in which they were created. All random numbers come from one generator with one seed.
// The parts mix each notable event (a task that ran, a frame that arrived) into one hash. Two runs with the same hash did the
// same things at the same times.
//
// Invariants:
//   WO-1  time never goes back, and an event never runs before its time
//   WO-2  the same seed and the same calls give the same hash, in any process on any machine
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/threads/executor.h"

namespace pw::sim {

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}
  World(const World&) = delete;

  absl::Time now() const { return now_; }
  // Simulated time since the world began.
  absl::Duration elapsed() const { return now_ - begin_; }
  // Schedules an event. A past time means now.
  void At(absl::Time when, Task event);
  void After(absl::Duration delay, Task event) { At(now_ + delay, std::move(event)); }

  // Runs events until `done` returns true (checked after each event), no event is left, or the next one is later than `end`. Then the time
  // is `end`, unless `done` stopped the run. Returns whether `done` did.
  bool RunUntil(absl::Time end, const std::function<bool()>& done);

  // Drops all events, also those created meanwhile. Call before anything that events refer to is destroyed.
  void Drop();

  // Uniform over [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound);
  absl::Duration Between(absl::Duration low, absl::Duration high);

  void Mix(uint64_t value);
  void Mix(absl::string_view bytes);
  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }

 private:
  const absl::Time begin_ = absl::UnixEpoch() + absl::Seconds(1000);
  absl::Time now_ = begin_;
  uint64_t random_;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t events_ = 0;
  uint64_t made_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, Task> queue_;
};

}  // namespace pw::sim
