#include "pathways/controller/scheduling/lease_length.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace pw::controller {

LeaseLength::LeaseLength(int64_t limit_ns, int64_t default_turn_ns, uint64_t most)
    : limit_ns_(std::max<int64_t>(limit_ns, 1)),
      most_(std::bit_floor(std::max<uint64_t>(most, 1))),
      turn_ns_(static_cast<double>(std::max<int64_t>(default_turn_ns, 1))) {}

LeaseLength::Lease LeaseLength::Next(absl::FunctionRef<ExecutableId()> new_id) {
  const double wanted = std::min(static_cast<double>(limit_ns_) / turn_ns_, static_cast<double>(most_));
  uint64_t turns = std::bit_floor(std::max<uint64_t>(static_cast<uint64_t>(wanted), 1));
  if (turns_ > 0) turns = std::min(turns, 2 * turns_);
  turns_ = turns;
  const auto size = static_cast<size_t>(std::countr_zero(turns));
  if (size >= ids_.size()) ids_.resize(size + 1);
  if (ids_[size] == ExecutableId()) ids_[size] = new_id();
  return {turns, ids_[size]};
}

void LeaseLength::Learn(double turn_ns) {
  if (!std::isfinite(turn_ns) || turn_ns <= 0) return;
  turn_ns_ = measured_ ? (turn_ns_ + 3 * turn_ns) / 4 : turn_ns;
  turn_ns_ = std::max(turn_ns_, 1.0);
  measured_ = true;
}

std::vector<ExecutableId> LeaseLength::ids() const {
  std::vector<ExecutableId> ids;
  for (ExecutableId id : ids_) {
    if (id != ExecutableId()) ids.push_back(id);
  }
  return ids;
}

}  // namespace pw::controller
