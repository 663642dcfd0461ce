#include "pathways/device/simulated/meetings.h"

#include <algorithm>
#include <utility>

namespace pw::device {

void Meetings::Arrive(int launch, int parties, absl::Time at, const absl::Status& status, Then then) {
  absl::Status outcome;
  absl::Time begin;
  std::vector<Then> free;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Meeting& meeting = meetings_[launch];
    meeting.waiting.push_back(std::move(then));
    if (meeting.status.ok()) meeting.status = status;
    outcome = meeting.status;
    begin = meeting.latest = std::max(meeting.latest, at);
    const bool complete = ++meeting.arrived >= parties;
    if (complete || !outcome.ok()) free.swap(meeting.waiting);
    if (complete) meetings_.erase(launch);
  }
  for (Then& one : free) std::move(one)(outcome, begin);
}

void Meetings::Abort(int launch, const absl::Status& why) {
  absl::Status outcome;
  std::vector<Then> free;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Meeting& meeting = meetings_[launch];
    if (meeting.status.ok()) meeting.status = why;
    outcome = meeting.status;
    free.swap(meeting.waiting);
  }
  for (Then& one : free) std::move(one)(outcome, absl::InfinitePast());
}

}  // namespace pw::device
