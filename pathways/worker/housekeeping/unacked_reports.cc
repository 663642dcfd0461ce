#include "pathways/worker/housekeeping/unacked_reports.h"

#include <algorithm>
#include <utility>

namespace pw::worker {

uint64_t UnackedReports::Add(const pathways::v1::Done& done, absl::Time now) {
  kept_.push_back({++last_, now, done});
  return last_;
}

void UnackedReports::Seen(uint64_t number) {
  seen_ = std::max(seen_, std::min(number, last_));
  while (!kept_.empty() && kept_.front().number <= seen_) kept_.pop_front();
}

std::vector<pathways::v1::Done> UnackedReports::Take() {
  std::vector<pathways::v1::Done> taken;
  if (!kept_.empty()) taken_ = kept_.back().number;
  for (Kept& kept : kept_) taken.push_back(std::move(kept.done));
  kept_.clear();
  return taken;
}

}  // namespace pw::worker
