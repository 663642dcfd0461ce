#include "pathways/trace/lanes.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace pw::trace {

Lanes LanesOf(const Recording& recording) {
  Lanes lanes;
  lanes.order.resize(recording.events.size());
  lanes.lane.resize(recording.events.size());
  std::iota(lanes.order.begin(), lanes.order.end(), size_t{0});
  std::stable_sort(lanes.order.begin(), lanes.order.end(),
                   [&](size_t a, size_t b) { return recording.events[a].begin < recording.events[b].begin; });
  std::vector<std::vector<absl::Time>> free(recording.tracks.size());  // by track and lane: the end of its last span
  for (size_t i : lanes.order) {
    const Event& event = recording.events[i];
    std::vector<absl::Time>& track = free[event.track];
    auto lane = std::find_if(track.begin(), track.end(), [&](absl::Time end) { return end <= event.begin; });
    if (lane == track.end()) lane = track.insert(lane, absl::InfinitePast());
    *lane = event.begin + event.duration;
    lanes.lane[i] = static_cast<size_t>(lane - track.begin());
  }
  return lanes;
}

std::string LaneName(const std::string& track, size_t lane) {
  return lane == 0 ? track : absl::StrCat(track, " (", lane + 1, ")");
}

}  // namespace pw::trace
