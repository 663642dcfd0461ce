#include "pathways/session/frames.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace pw::session {
namespace {

using google::protobuf::internal::WireFormatLite;

// Field numbers, the same in ClientFrame and ControllerFrame.
constexpr int kFirst = ::pathways::v1::ClientFrame::kFirstFieldNumber;
constexpr int kAck = ::pathways::v1::ClientFrame::kAckFieldNumber;
constexpr int kMessages = ::pathways::v1::ClientFrame::kRequestsFieldNumber;
static_assert(kFirst == ::pathways::v1::ControllerFrame::kFirstFieldNumber);
static_assert(kAck == ::pathways::v1::ControllerFrame::kAckFieldNumber);
static_assert(kMessages == ::pathways::v1::ControllerFrame::kEventsFieldNumber);

// Writes a frame's header from the serialized messages of the batch, without parsing them.
std::string Header(const net::ResumableStream::Batch& batch, uint64_t ack) {
  size_t size = 32;
  for (const auto* message : batch.messages) size += message->header.size() + 8;
  std::string header;
  header.reserve(size);
  {
    google::protobuf::io::StringOutputStream sink(&header);
    google::protobuf::io::CodedOutputStream out(&sink);
    if (!batch.messages.empty()) WireFormatLite::WriteUInt64(kFirst, batch.first, &out);
    WireFormatLite::WriteUInt64(kAck, ack, &out);
    for (const auto* message : batch.messages) WireFormatLite::WriteBytes(kMessages, message->header, &out);
  }
  return header;
}

}  // namespace

std::string SerializedFrame(const ::pathways::v1::ControllerFrame& frame) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  frame.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

void SendBatches(net::ResumableStream& stream, Sending sending, net::Connection& connection) {
  while (stream.has_unsent() && stream.in_flight_bytes() < sending.window) {
    const net::ResumableStream::Batch batch = stream.Take(kFrameBytes);
    std::vector<Bytes> payload;
    for (const auto* message : batch.messages)
      std::copy_if(message->payload.begin(), message->payload.end(), std::back_inserter(payload),
                   [](const Bytes& piece) { return !piece.empty(); });
    connection.Send(Header(batch, sending.acknowledged), std::move(payload), net::Lane::kUrgent);
    sending.news = false;
  }
  if (sending.news) connection.Send(Header({}, sending.acknowledged));
}

}  // namespace pw::session
