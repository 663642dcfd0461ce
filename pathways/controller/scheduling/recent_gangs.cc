#include "pathways/controller/scheduling/recent_gangs.h"

#include <algorithm>

namespace pw::controller {

GangLabel::Ranges GangLabel::RangesOf(absl::Span<const DeviceId> devices) {
  Ranges ranges;
  for (DeviceId device : devices) {
    if (!ranges.empty() && ranges.back().second.v + 1 == device.v) {
      ranges.back().second = device;
    } else {
      ranges.emplace_back(device, device);
    }
  }
  return ranges;
}

void RecentGangs::Look(absl::Time now) {
  on_ = true;
  looked_ = now;
}

void RecentGangs::Tick(absl::Time now) {
  if (!on_ || now - looked_ < kForget) return;
  on_ = false;
  gangs_ = {};
}

void RecentGangs::Add(RecentGang gang) {
  gang.number = next_++;
  if (gangs_.size() == kMost) gangs_.pop_front();
  gangs_.push_back(std::move(gang));
}

std::vector<RecentGang> RecentGangs::After(uint64_t after) const {
  const uint64_t first = next_ - gangs_.size();  // the number of the oldest
  const size_t skip = after < first ? 0 : std::min<size_t>(gangs_.size(), after - first + 1);
  return {gangs_.begin() + static_cast<std::ptrdiff_t>(skip), gangs_.end()};
}

}  // namespace pw::controller
