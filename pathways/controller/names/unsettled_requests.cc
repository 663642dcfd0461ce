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
  if (it == open_.end() || (!begins && it->second == 0)) return;
  if (begins) last_ = request;
  latest_ = request;
  holds_of_latest_ = &it->second;
  ++it->second;
}

void UnsettledRequests::Release(uint64_t request) {
  if (request != latest_ || holds_of_latest_ == nullptr) {
    const auto it = open_.find(request);
    if (it == open_.end() || it->second == 0) return;
    latest_ = request;
    holds_of_latest_ = &it->second;
  }
  if (--*holds_of_latest_ > 0) return;
  holds_of_latest_ = nullptr;
  if (awaits_client_) return untold_.push_back(request);
  open_.erase(request);
  ++settled_;
}

uint64_t UnsettledRequests::done_up_to() const {
  const auto held = std::find_if(open_.begin(), open_.end(), [](const auto& open) { return open.second > 0; });
  return held == open_.end() ? last_ : held->first - 1;
}

UnsettledRequests::Done UnsettledRequests::TakeDone(const std::shared_ptr<UnsettledRequests>& requests) {
  auto taken = std::exchange(requests->untold_, {});
  std::sort(taken.begin(), taken.end());
  Done done;
  for (uint64_t request : taken) {
    if (!done.ranges.empty() && done.ranges.back() + 1 == request) {
      done.ranges.back() = request;
    } else {
      done.ranges.insert(done.ranges.end(), {request, request});
    }
  }
  done.known = std::shared_ptr<void>(nullptr, [weak = std::weak_ptr(requests), taken = std::move(taken)](void*) {
    if (const auto self = weak.lock()) self->Settle(taken);
  });
  return done;
}

void UnsettledRequests::Settle(const std::vector<uint64_t>& requests) {
  for (uint64_t request : requests) settled_ += open_.erase(request);
  if (on_settled_ != nullptr) on_settled_();
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
