#include "pathways/lanes/sender.h"

#include <algorithm>

namespace pw::lanes {

void Sender::Drop(uint64_t name) {
  std::erase_if(queue_, [name](const Sending& sending) { return sending.name == name; });
}

void Sender::SetName(uint64_t name, ::pathways::v1::LaneBytes* bytes) const {
  switch (names_) {
    case Names::kBuffers:
      return bytes->set_buffer(name);
    case Names::kFetches:
      return bytes->set_fetch(name);
    case Names::kCalls:
      return bytes->set_call(name);
  }
}

void Sender::Pump(LaneEnd& lane) {
  while (!queue_.empty() && lane.CanSend()) {
    Sending& next = queue_.front();
    ::pathways::v1::LaneMessage message;
    auto& bytes = *message.mutable_bytes();
    SetName(next.name, &bytes);
    bytes.set_offset(next.offset);
    bytes.set_total_bytes(next.data.size());
    if (next.offset == 0 && names_ != Names::kCalls && lane.HandOver(message, next.data)) {
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
