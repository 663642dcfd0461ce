#include "pathways/base/clock.h"

#include <chrono>

namespace pw {

absl::Time SteadyClock::Now() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace pw
