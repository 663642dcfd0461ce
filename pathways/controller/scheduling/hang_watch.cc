#include "pathways/controller/scheduling/hang_watch.h"

#include <algorithm>
#include <utility>

namespace pw::controller {

std::vector<HangWatch::Hang> HangWatch::Look(absl::Time now, absl::Span<const Gang> underway) {
  std::map<gang::GangId, Hang> before = std::exchange(watched_, {});
  for (const Gang& gang : underway) {
    if (!gang.heads) continue;
    auto known = before.find(gang.gang);
    if (known == before.end()) {
      watched_[gang.gang] = {gang, now};
      continue;
    }
    known->second.gang = gang;
    watched_.insert(before.extract(known));
  }
  std::vector<Hang> ended;
  for (auto& [id, hang] : before) {
    if (hang.named) ended.push_back(std::move(hang));
  }
  return ended;
}

bool HangWatch::IsLate(const Hang& hang, absl::Time now) const {
  const absl::Duration limit = hang.gang.predicted.has_value() ? std::max(options_.least, *hang.gang.predicted * options_.factor)
                                                               : std::max(options_.least, options_.unmeasured);
  return now - hang.since > limit;
}

std::vector<HangWatch::Hang> HangWatch::Suspects(absl::Time now) const {
  std::vector<Hang> suspects;
  for (const auto& [id, hang] : watched_) {
    if (IsLate(hang, now)) suspects.push_back(hang);
  }
  return suspects;
}

bool HangWatch::Name(gang::GangId gang) {
  auto it = watched_.find(gang);
  return it != watched_.end() && !std::exchange(it->second.named, true);
}

void HangWatch::Forgive(absl::Time now) {
  for (auto& [id, hang] : watched_) hang.since = now;
}

bool HangWatch::MayWaitForAnother(const Hang& suspect, absl::Time now) const {
  return std::any_of(watched_.begin(), watched_.end(), [&](const auto& other) {
    const auto& [gang, hang] = other;
    return hang.gang.session == suspect.gang.session && gang != suspect.gang.gang && !IsLate(hang, now);
  });
}

}  // namespace pw::controller
