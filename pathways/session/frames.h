// Frames of the session protocol. A frame carries a batch of numbered messages (requests or events) and their payload. Messages are
// serialized once and may be sent several times (net/resumable/resumable_stream.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/resumable/resumable_stream.h"
#include "pathways/net/transport.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

// Largest size of a frame; a single larger message still gets a frame of its own.
inline constexpr size_t kFrameBytes = size_t{1} << 20;
// A client sends no further request while requests of more bytes are sent and not acknowledged. The controller acknowledges a
// request once it has carried it out. So the controller holds a bounded number of requests for a suspended session.
inline constexpr size_t kRequestWindowBytes = size_t{16} << 20;
// The controller carries out no further request while events of more bytes wait for the client's acknowledgement.
inline constexpr size_t kEventWindowBytes = size_t{64} << 20;

inline const auto& MessagesOf(const ::pathways::v1::ClientFrame& frame) { return frame.requests(); }
inline const auto& MessagesOf(const ::pathways::v1::ControllerFrame& frame) { return frame.events(); }

// Returns a request or event with its payload, in the form that the stream keeps.
template <class Message>
net::ResumableStream::Message Pack(Message message, std::vector<Bytes> payload) {
  uint64_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  message.set_payload_bytes(bytes);
  return {message.SerializeAsString(), std::move(payload)};
}

// Serializes a frame that begins a connection. Equal frames give equal bytes, although they have maps, so that a simulated run can be repeated.
std::string SerializedFrame(const ::pathways::v1::ControllerFrame& frame);

struct Sending {
  uint64_t acknowledged = 0;  // the last message of the other end to acknowledge, by number
  bool news = false;          // the other end does not know `acknowledged`: it is sent even without messages
  size_t window = SIZE_MAX;   // no message is sent while this many bytes are in flight
};
// Sends the unsent messages, in as few frames as possible, with the acknowledgement.
void SendBatches(net::ResumableStream& stream, Sending sending, net::Connection& connection);

// Splits a frame's payload into one piece for each message. INVALID_ARGUMENT if the sizes do not add up.
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
