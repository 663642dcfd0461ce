// Frames of the session protocol: numbered messages, serialized once and sent as often as it takes (net/resumable_stream.h), and the
// pieces of a payload that belong to each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/net/resumable_stream.h"
#include "pathways/net/transport.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

// What one frame holds at most, unless a single message is larger.
inline constexpr size_t kFrameBytes = size_t{1} << 20;

inline const auto& MessagesOf(const ::pathways::v1::ClientFrame& frame) { return frame.requests(); }
inline const auto& MessagesOf(const ::pathways::v1::ControllerFrame& frame) { return frame.events(); }

// A request or an event, with its payload, as the stream keeps it.
template <class Message>
net::ResumableStream::Message Pack(Message message, std::vector<Bytes> payload) {
  uint64_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  message.set_payload_bytes(bytes);
  return {message.SerializeAsString(), std::move(payload)};
}

// Sends what the stream has not sent, in as few frames as fit; an acknowledgement alone if there is nothing else and `acknowledge`.
void SendBatches(net::ResumableStream& stream, bool acknowledge, net::Connection& connection);

// For each message its part of the payload. INVALID_ARGUMENT if they do not add up.
template <class Frame>
absl::StatusOr<std::vector<Bytes>> SplitPayload(const Frame& frame, const Bytes& payload) {
  std::vector<Bytes> pieces;
  uint64_t offset = 0;
  for (const auto& message : MessagesOf(frame)) {
    const uint64_t size = message.payload_bytes();
    if (size > payload.size() - offset) return absl::InvalidArgumentError("a frame announces more than its payload holds");
    pieces.push_back(size == 0 ? Bytes() : payload.Slice(offset, size));
    offset += size;
  }
  if (offset == payload.size()) return pieces;
  return absl::InvalidArgumentError("a frame has a payload that none of its messages announces");
}

}  // namespace pw::session
