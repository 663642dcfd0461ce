// Clock: the time, behind an interface so that the simulator can own it.
#pragma once

#include "absl/time/time.h"

namespace pw {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic where the platform has it: only differences mean anything.
  virtual absl::Time Now() = 0;
};

// The machine's steady clock. One per process is enough; it has no state.
class SteadyClock : public Clock {
 public:
  absl::Time Now() override;
};

}  // namespace pw
