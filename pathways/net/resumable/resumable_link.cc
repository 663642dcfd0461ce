#include "pathways/net/resumable/resumable_link.h"

#include <utility>

#include "pathways/base/status_macros.h"

namespace pw::net {
namespace {

// After this number of frames or bytes, the next frame carries an acknowledgement.
constexpr uint64_t kOwedFrames = 64;
constexpr size_t kOwedBytes = size_t{64} << 10;
// After this number, the acknowledgement is sent alone.
constexpr uint64_t kMostOwedFrames = 1024;
constexpr size_t kMostOwedBytes = size_t{1} << 20;
// The same for a link of one lane, which carries arrays in frames of 1 MiB. An end that resends waits for an acknowledgement after
// kWindowBytes, of which frames of less than kMostOwedFrames may be no bytes but kMessageCost.
constexpr size_t kMostOwedBulkBytes = size_t{2} << 20;
static_assert(kMostOwedBulkBytes + kMostOwedFrames * ResumableStream::kMessageCost <= ResumableLink::kWindowBytes);

// Wire types of Protocol Buffers.
constexpr int kVarint = 0, kLengthDelimited = 2;

void AddVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AddNumber(int field, uint64_t value, std::string* out) {
  AddVarint(static_cast<uint64_t>(field << 3 | kVarint), out);
  AddVarint(value, out);
}

}  // namespace

void ResumableLink::Send(std::string header, std::vector<Bytes> payload, Lane lane) {
  if (!resumable_) {
    if (connection_ != nullptr) connection_->Send(std::move(header), std::move(payload), lane);
    return;
  }
  if (abandoned_) return;
  ResumableStream& stream = StreamOf(lane);
  const bool others_wait = stream.has_unsent();
  stream.Append({std::move(header), std::move(payload)});
  if (!others_wait) SendUnsent(stream, lane, SIZE_MAX);
}

void ResumableLink::SendUnsent(ResumableStream& stream, Lane lane, size_t window) {
  while (connection_ != nullptr && stream.has_unsent() && stream.in_flight_bytes() < window) {
    const ResumableStream::Message& message = *stream.Take(1).messages.front();
    std::string header = message.header;
    if (lane == Lane::kBulk && lanes_ == Lanes::kBoth) AddNumber(kBulkField, 1, &header);
    if (frames_owed() >= kOwedFrames || owed_bytes_ >= kOwedBytes) AddReceived(&header);
    connection_->Send(std::move(header), message.payload, lane);
  }
}

bool ResumableLink::CanSendBulk() const {
  if (connection_ == nullptr || bulk_.kept_bytes() >= kMostBulkBytes) return false;
  return connection_->CanSendBulk();
}

uint64_t ResumableLink::frames_owed() const { return urgent_.received() - told_.urgent + bulk_.received() - told_.bulk; }

void ResumableLink::AddReceived(std::string* header) {
  told_ = received();
  owed_bytes_ = 0;
  std::string counts;
  AddNumber(1, told_.urgent, &counts);
  AddNumber(2, told_.bulk, &counts);
  AddVarint(kReceivedField << 3 | kLengthDelimited, header);
  AddVarint(counts.size(), header);
  header->append(counts);
}

void ResumableLink::Receive(Lane lane, size_t bytes) {
  if (!resumable_) return;
  ResumableStream& stream = StreamOf(lane);
  stream.Receive(stream.received() + 1, 1).IgnoreError();  // cannot fail: it is the next one
  (lane == Lane::kBulk ? bulk_received_ : urgent_received_).store(stream.received());
  owed_bytes_ += bytes;
  heard_ = true;  // the other end has answered
  const size_t most_bytes = lanes_ == Lanes::kBulkOnly ? kMostOwedBulkBytes : kMostOwedBytes;
  if (frames_owed() >= kMostOwedFrames || owed_bytes_ >= most_bytes) TellReceived();
}

void ResumableLink::TellReceived() {
  if (connection_ == nullptr || frames_owed() == 0) return;
  std::string header;
  AddReceived(&header);
  AddNumber(kBesideField, 1, &header);
  connection_->Send(std::move(header));
}

absl::Status ResumableLink::Acknowledge(Counts counts) {
  if (!resumable_) return absl::OkStatus();
  PW_RETURN_IF_ERROR(urgent_.Acknowledge(counts.urgent));
  PW_RETURN_IF_ERROR(bulk_.Acknowledge(counts.bulk));
  heard_ = heard_ || counts.urgent > 0;
  TellAgain();
  return absl::OkStatus();
}

void ResumableLink::Abandon() {
  connection_ = nullptr;
  abandoned_ = true;
  urgent_ = {};
  bulk_ = {};
}

void ResumableLink::TellAgain() {
  SendUnsent(urgent_, Lane::kUrgent, kWindowBytes);
  SendUnsent(bulk_, Lane::kBulk, kWindowBytes);
}

absl::Status ResumableLink::Resume(Connection* connection, Counts received) {
  if (!resumable_) return absl::FailedPreconditionError("this link cannot be resumed");
  PW_RETURN_IF_ERROR(urgent_.CheckResume(received.urgent));
  PW_RETURN_IF_ERROR(bulk_.Resume(received.bulk));
  PW_RETURN_IF_ERROR(urgent_.Resume(received.urgent));
  connection_ = connection;
  told_ = this->received();  // the handshake carries these counts
  owed_bytes_ = 0;
  heard_ = heard_ || received.urgent > 0;
  return absl::OkStatus();
}

}  // namespace pw::net
