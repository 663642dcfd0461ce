#include "pathways/lanes/sender.h"

#include <algorithm>

namespace pw::lanes {

void Sender::Drop(uint64_t name) {
  std::erase_if(queue_, [name](const Sending& sending) { return sending.name == name; });
}

void Sender::Pump(LaneEnd& lane) {
  while (!queue_.empty() && lane.CanSend()) {
    Sending& next = queue_.front();
    ::pathways::v1::LaneMessage message;
    auto& bytes = *message.mutable_bytes();
    if (names_ == Names::kBuffers)
      bytes.set_buffer(next.name);
    else
      bytes.set_fetch(next.name);
    bytes.set_offset(next.offset);
    bytes.set_total_bytes(next.data.size());
    if (next.offset == 0 && lane.HandOver(message, next.data)) {
      queue_.pop_front();
      continue;
    }
    const size_t size = std::min(kPartBytes, next.data.size() - next.offset);
    lane.Send(message, next.data.Slice(next.offset, size));
    next.offset += size;
    if (next.offset == next.data.size()) queue_.pop_front();
  }
}

}  // namespace pw::lanes
