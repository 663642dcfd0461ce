#include "pathways/gang/policies/strict_priority.h"

#include <algorithm>

namespace pw::gang {
namespace {

constexpr int64_t kStepNs = 1'000'000;

}  // namespace

StrictPriority::StrictPriority(int64_t aging_ns) : aging_steps_(std::max<int64_t>(1, aging_ns / kStepNs)) {}

int64_t StrictPriority::GangRank(uint64_t, int64_t submitted_ns) const { return submitted_ns / kStepNs; }

int64_t StrictPriority::ClientRank(ClientId client) const {
  auto it = priorities_.find(client);
  return it == priorities_.end() ? 0 : -it->second * aging_steps_;
}

bool StrictPriority::SetShare(ClientId client, const Share& share) {
  int& priority = priorities_[client];
  const bool changed = priority != share.priority;
  priority = share.priority;
  return changed;
}

}  // namespace pw::gang
