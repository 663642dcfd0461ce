#include "pathways/base/threads/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace pw {

absl::Time SteadyClock::Now() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::Time SteadyClock::TimeOfDay(absl::Time at) { return absl::Now() - (Now() - at); }
absl::Time WallClock::Now() { return absl::Now(); }

}  // namespace pw
