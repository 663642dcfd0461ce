#include "pathways/dataflow/graph/host_set.h"

#include <algorithm>

namespace pw::dataflow {

HostSet::HostSet(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.first < b.first; });
  for (const Interval& next : intervals) {
    if (next.count == 0) continue;
    if (!intervals_.empty()) {
      Interval& last = intervals_.back();
      const uint64_t last_end = uint64_t{last.first.v} + last.count, next_end = uint64_t{next.first.v} + next.count;
      if (next.first.v <= last_end) {
        last.count = static_cast<uint32_t>(std::max(last_end, next_end) - last.first.v);
        continue;
      }
    }
    intervals_.push_back(next);
  }
  for (const Interval& interval : intervals_) {
    before_.push_back(size_);
    size_ += interval.count;
  }
}

std::optional<uint32_t> HostSet::PositionOf(HostId host) const {
  auto after = std::upper_bound(intervals_.begin(), intervals_.end(), host,
                                [](HostId h, const Interval& interval) { return h < interval.first; });
  if (after == intervals_.begin()) return std::nullopt;
  const Interval& interval = *(after - 1);
  if (host.v - interval.first.v >= interval.count) return std::nullopt;
  return before_[after - 1 - intervals_.begin()] + (host.v - interval.first.v);
}

HostId HostSet::At(uint32_t position) const {
  const size_t i = std::upper_bound(before_.begin(), before_.end(), position) - before_.begin() - 1;
  return HostId(intervals_[i].first.v + (position - before_[i]));
}

HostSet HostSet::Union(const HostSet& other) const {
  std::vector<Interval> all = intervals_;
  all.insert(all.end(), other.intervals_.begin(), other.intervals_.end());
  return HostSet(std::move(all));
}

}  // namespace pw::dataflow
