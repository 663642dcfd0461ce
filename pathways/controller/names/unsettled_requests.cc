#include "pathways/controller/names/unsettled_requests.h"

#include <algorithm>

namespace pw::controller {

void UnsettledRequests::Hold(uint64_t request) {
  if (request == latest_ && holds_of_latest_ != nullptr) {
    ++*holds_of_latest_;
    return;
  }
  const bool begins = request > last_;
  const auto it = begins ? open_.emplace_hint(open_.end(), request, 0) : open_.find(request);
  if (it == open_.end()) return;
  if (begins) last_ = request;
  latest_ = request;
  holds_of_latest_ = &it->second;
  ++it->second;
}

void UnsettledRequests::Release(uint64_t request) {
  if (request != latest_ || holds_of_latest_ == nullptr) {
    const auto it = open_.find(request);
    if (it == open_.end()) return;
    latest_ = request;
    holds_of_latest_ = &it->second;
  }
  if (--*holds_of_latest_ > 0) return;
  open_.erase(request);
  holds_of_latest_ = nullptr;
  ++settled_;
}

std::vector<uint64_t> UnsettledRequests::SettledAfter(size_t most) const {
  std::vector<uint64_t> ranges;
  uint64_t last = last_;
  for (auto open = open_.rbegin(); open != open_.rend() && ranges.size() < 2 * most; ++open) {
    if (open->first < last) {
      ranges.push_back(last);
      ranges.push_back(open->first + 1);
    }
    last = open->first - 1;
  }
  std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

}  // namespace pw::controller
