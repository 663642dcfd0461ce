#include "pathways/dataflow/progress/counts.h"

#include <algorithm>
#include <utility>

namespace pw::dataflow {

void Counts::Append(Stretch run) {
  if (run.length == 0 || run.messages == 0) return;
  if (!stretches_.empty()) {
    Stretch& last = stretches_.back();
    if (last.first + last.length == run.first && last.messages == run.messages) {
      last.length += run.length;
      return;
    }
  }
  stretches_.push_back(run);
}

// Sweeps over the borders of the stretches of both.
void Counts::Add(const Counts& other) {
  if (other.stretches_.empty()) return;
  const std::vector<Stretch> mine = std::move(stretches_);
  const std::vector<Stretch>& theirs = other.stretches_;
  stretches_.clear();
  size_t i = 0, k = 0;
  uint32_t at = 0;
  constexpr uint32_t kEnd = UINT32_MAX;
  while (i < mine.size() || k < theirs.size()) {
    // From `at` to `end`, the counts of both sides are constant.
    uint32_t end = kEnd;
    uint64_t messages = 0;
    for (const auto& [list, next] : {std::pair(&mine, i), std::pair(&theirs, k)}) {
      if (next == list->size()) continue;
      const Stretch& run = (*list)[next];
      if (at < run.first) {
        end = std::min(end, run.first);
      } else {
        end = std::min(end, run.first + run.length);
        messages += run.messages;
      }
    }
    Append({at, end - at, messages});
    at = end;
    if (i < mine.size() && at >= mine[i].first + mine[i].length) ++i;
    if (k < theirs.size() && at >= theirs[k].first + theirs[k].length) ++k;
  }
}

uint64_t Counts::Of(uint32_t shard) const {
  auto after =
      std::upper_bound(stretches_.begin(), stretches_.end(), shard, [](uint32_t s, const Stretch& run) { return s < run.first; });
  if (after == stretches_.begin()) return 0;
  const Stretch& run = *(after - 1);
  return shard - run.first < run.length ? run.messages : 0;
}

absl::Status Counts::Check(absl::Span<const Stretch> stretches, uint32_t shards) {
  uint64_t end = 0;
  for (const Stretch& run : stretches) {
    if (run.length == 0 || run.messages == 0) return absl::InvalidArgumentError("a report has a count of nothing");
    if (run.first < end) return absl::InvalidArgumentError("a report's counts are not in ascending order");
    end = uint64_t{run.first} + run.length;
    if (end > shards) return absl::InvalidArgumentError("a report counts messages to shards that do not exist");
    if (run.messages > kMaxMessages) return absl::InvalidArgumentError("a report counts more messages than anyone can send");
  }
  return absl::OkStatus();
}

}  // namespace pw::dataflow
