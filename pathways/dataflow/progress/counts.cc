#include "pathways/dataflow/progress/counts.h"

#include <algorithm>
#include <utility>

namespace pw::dataflow {

void Counts::Append(Stretch run) {
  if (run.length == 0 || run.messages == 0) return;
  if (!runs_.empty()) {
    Stretch& last = runs_.back();
    if (last.first + last.length == run.first && last.messages == run.messages) {
      last.length += run.length;
      return;
    }
  }
  runs_.push_back(run);
}

// Sweeps over the borders of both.
void Counts::Add(const Counts& other) {
  if (other.runs_.empty()) return;
  const std::vector<Stretch> mine = std::move(runs_);
  const std::vector<Stretch>& theirs = other.runs_;
  runs_.clear();
  size_t i = 0, k = 0;
  uint32_t at = 0;
  constexpr uint32_t kEnd = UINT32_MAX;
  while (i < mine.size() || k < theirs.size()) {
    // Up to `end` neither side changes.
    uint32_t end = kEnd;
    uint64_t messages = 0;
    for (const auto& [runs, next] : {std::pair(&mine, i), std::pair(&theirs, k)}) {
      if (next == runs->size()) continue;
      const Stretch& run = (*runs)[next];
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
  auto after = std::upper_bound(runs_.begin(), runs_.end(), shard, [](uint32_t s, const Stretch& run) { return s < run.first; });
  if (after == runs_.begin()) return 0;
  const Stretch& run = *(after - 1);
  return shard - run.first < run.length ? run.messages : 0;
}

absl::Status Counts::Check(absl::Span<const Stretch> runs, uint32_t shards) {
  uint64_t end = 0;
  for (const Stretch& run : runs) {
    if (run.length == 0 || run.messages == 0) return absl::InvalidArgumentError("a report has a count of nothing");
    if (run.first < end) return absl::InvalidArgumentError("a report's counts are not in ascending order");
    end = uint64_t{run.first} + run.length;
    if (end > shards) return absl::InvalidArgumentError("a report counts messages to shards that do not exist");
    if (run.messages > kMaxMessages) return absl::InvalidArgumentError("a report counts more messages than anyone can send");
  }
  return absl::OkStatus();
}

}  // namespace pw::dataflow
