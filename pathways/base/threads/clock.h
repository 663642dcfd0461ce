// Clock: the time, behind an interface so that the simulator can control it.
#pragma once

#include "absl/time/time.h"

namespace pw {

class Clock {
 public:
  virtual ~Clock() = default;
  // Returns the time, monotonic where the platform allows: only differences are meaningful.
  virtual absl::Time Now() = 0;
  // Converts a time that Now has returned to the time of day, for people to read.
  virtual absl::Time TimeOfDay(absl::Time at) { return at; }
};

// The machine's steady clock. One per process is enough; it has no state.
class SteadyClock : public Clock {
 public:
  absl::Time Now() override;
  absl::Time TimeOfDay(absl::Time at) override;
};

// The time of day, which agrees with other machines' and may jump: for deadlines that are dates.
class WallClock : public Clock {
 public:
  absl::Time Now() override;
};

}  // namespace pw
