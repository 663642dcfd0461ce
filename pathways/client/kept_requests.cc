#include "pathways/client/kept_requests.h"

#include <algorithm>
#include <utility>

namespace pw::client {

void KeptRequests::NoteMaker(uint64_t number, std::vector<Handle> buffers) {
  for (Handle buffer : buffers) buffers_[buffer].maker = number;
  if (!buffers.empty()) buffers_of_[number] = std::move(buffers);
}

void KeptRequests::NoteCarrier(uint64_t number, Handle buffer) {
  buffers_[buffer].carrier = number;
  carried_by_[number] = buffer;
}

void KeptRequests::Keep(uint64_t first, std::deque<Message> messages) {
  for (Message& message : messages) {
    bytes_ += message.cost();
    kept_.emplace_hint(kept_.end(), first, Request{std::move(message)});
    last_ = std::max(last_, first++);
  }
  if (bytes_ <= most_bytes_) return;
  for (auto& [number, request] : kept_) {
    if (std::exchange(request.lost, true)) continue;
    request.message = {};
    ++lost_;
  }
  bytes_ = 0;
}

void KeptRequests::Drop(std::map<uint64_t, Request>::iterator request) {
  if (request->second.lost) {
    --lost_;
  } else {
    bytes_ -= request->second.message.cost();
  }
  kept_.erase(request);
}

void KeptRequests::SettleOne(uint64_t number) {
  const auto request = kept_.find(number);
  if (request == kept_.end()) return;
  if (const auto carried = carried_by_.find(number); carried != carried_by_.end()) {
    const auto buffer = buffers_.find(carried->second);
    // Its array may be made later, and may need the bytes once more until then.
    if (buffer != buffers_.end() && (buffer->second.maker == 0 || !IsSettled(buffer->second.maker))) {
      request->second.settled = true;
      return;
    }
    buffers_.erase(carried->second);
    carried_by_.erase(carried);
  }
  Drop(request);
  const auto made = buffers_of_.extract(number);
  if (made.empty()) return;
  for (Handle handle : made.mapped()) {
    const auto buffer = buffers_.find(handle);
    const auto carrier = buffer == buffers_.end() ? kept_.end() : kept_.find(buffer->second.carrier);
    if (carrier == kept_.end() || !carrier->second.settled) continue;  // it goes when it is settled
    carried_by_.erase(carrier->first);
    buffers_.erase(buffer);
    Drop(carrier);
  }
}

void KeptRequests::Settle(absl::Span<const uint64_t> ranges) {
  for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
    for (auto at = kept_.lower_bound(ranges[i]); at != kept_.end() && at->first <= ranges[i + 1];) {
      const uint64_t number = at->first;
      SettleOne(number);
      at = kept_.upper_bound(number);
    }
  }
}

uint64_t KeptRequests::settled_up_to() const { return kept_.empty() ? last_ : kept_.begin()->first - 1; }

void KeptRequests::ForEach(absl::FunctionRef<void(uint64_t, const Message&)> visit) const {
  for (const auto& [number, request] : kept_) visit(number, request.message);
}

}  // namespace pw::client
