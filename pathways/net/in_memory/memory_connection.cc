#include "pathways/net/in_memory/memory_connection.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "pathways/net/framing.h"
#include "pathways/net/in_memory/join_payload.h"

namespace pw::net {
namespace {

// Frames delivered per turn, before other users of the executor run.
constexpr int kTurnFrames = 64;

// Copies the payload to the place where a socket would have written it.
void Land(Connection::Handler* handler, Frame* frame) {
  Place place = handler->PlaceFor(frame->header, frame->payload.size());
  if (place.data == nullptr) return;
  std::memcpy(place.data, frame->payload.data(), frame->payload.size());
  frame->payload = Bytes(std::move(place.owner), place.data, frame->payload.size());
}

}  // namespace

MemoryEnd::MemoryEnd(Executor* executor, std::string peer, const Limits& limits, bool hands_over,
                     std::shared_ptr<MemoryTotals> network_totals)
    : peer_name_(std::move(peer)),
      limits_(limits),
      hands_over_(hands_over),
      network_totals_(std::move(network_totals)),
      strand_(executor) {}

void MemoryEnd::Join(const std::shared_ptr<MemoryEnd>& a, const std::shared_ptr<MemoryEnd>& b) {
  a->peer_ = b;
  b->peer_ = a;
}

void MemoryEnd::Start(Connection::Handler* handler) {
  gate_.Attach(handler);
  std::lock_guard<std::mutex> lock(mu_);
  started_ = true;
  ScheduleLocked();
}

void MemoryEnd::Send(std::string header, std::vector<Bytes> payload, Lane lane) {
  if (closing_) return;
  size_t payload_bytes = 0;
  for (const Bytes& piece : payload) payload_bytes += piece.size();
  if (absl::Status fits = CheckOutgoing(peer_name_, header.size(), payload_bytes, limits_); !fits.ok()) {
    Close(std::move(fits));
    return;
  }
  for (MemoryTotals* counts : {&counts_, network_totals_.get()}) {
    counts->frames_sent += 1;
    counts->bytes_sent += header.size() + payload_bytes;
  }
  const std::shared_ptr<MemoryEnd> peer = peer_.lock();
  if (peer == nullptr) return;
  Bytes joined =
      hands_over_ && payload.size() == 1 && IsAligned(payload[0]) ? std::move(payload[0]) : Joined(payload, payload_bytes);
  peer->Receive({std::move(header), std::move(joined)}, lane);
}

void MemoryEnd::Receive(Frame frame, Lane lane) {
  if (absl::Status fits = CheckIncoming(frame.header.size(), frame.payload.size(), limits_); !fits.ok()) {
    Close(absl::InvalidArgumentError(absl::StrCat("connection to ", peer_name_, " was closed: ", fits.message())));
    return;
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (reason_.has_value()) return;
  if (lane == Lane::kBulk) bulk_bytes_ += frame.header.size() + frame.payload.size();
  (lane == Lane::kUrgent ? urgent_ : bulk_).push_back(std::move(frame));
  ScheduleLocked();
}

bool MemoryEnd::CanSendBulk() {
  const std::shared_ptr<MemoryEnd> peer = peer_.lock();
  return peer == nullptr || peer->HasRoom();
}

bool MemoryEnd::HasRoom() {
  std::lock_guard<std::mutex> lock(mu_);
  if (bulk_bytes_ <= limits_.bulk_high_water_bytes) return true;
  peer_waits_ = true;
  return false;
}

void MemoryEnd::Close(absl::Status reason) {
  if (closing_.exchange(true)) return;
  std::deque<Frame> urgent, bulk;  // freed after the lock is released
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!reason_.has_value()) reason_ = std::move(reason);  // the peer may have been first
    urgent.swap(urgent_);
    bulk.swap(bulk_);
    ScheduleLocked();
  }
  if (const std::shared_ptr<MemoryEnd> peer = peer_.lock()) peer->PeerClosed();
}

void MemoryEnd::PeerClosed() {
  std::deque<Frame> bulk;  // freed after the lock is released
  std::lock_guard<std::mutex> lock(mu_);
  if (reason_.has_value()) return;
  reason_ = absl::UnavailableError(absl::StrCat("connection to ", peer_name_, " was closed by the peer"));
  bulk.swap(bulk_);
  ScheduleLocked();
}

void MemoryEnd::Abandon() {
  gate_.Detach(strand_.RunsHere());
  Close(absl::CancelledError(absl::StrCat("the connection to ", peer_name_, " was destroyed")));
}

void MemoryEnd::ScheduleLocked() {
  if (!started_ || scheduled_ || finished_) return;
  if (urgent_.empty() && bulk_.empty() && !reason_.has_value()) return;
  scheduled_ = true;
  strand_.Post([self = shared_from_this()] { self->Deliver(); });
}

void MemoryEnd::Deliver() {
  for (int i = 0; i < kTurnFrames; ++i) {
    if (!DeliverOne()) return;
  }
  std::lock_guard<std::mutex> lock(mu_);
  scheduled_ = false;
  ScheduleLocked();
}

bool MemoryEnd::DeliverOne() {
  std::optional<Frame> frame;
  size_t bulk_bytes = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    std::deque<Frame>* lane = !urgent_.empty() ? &urgent_ : &bulk_;
    if (!lane->empty()) {
      frame = std::move(lane->front());
      lane->pop_front();
      if (lane == &bulk_) bulk_bytes = frame->header.size() + frame->payload.size();
    } else {
      finished_ = reason_.has_value();
      scheduled_ = false;
      if (!finished_) return false;
    }
  }
  if (!frame.has_value()) {
    closing_ = true;
    gate_.Call([this](Connection::Handler* handler) { handler->OnClosed(*reason_); });
    return false;
  }
  if (bulk_bytes != 0) Popped(bulk_bytes);
  for (MemoryTotals* counts : {&counts_, network_totals_.get()}) {
    counts->frames_received += 1;
    counts->bytes_received += frame->header.size() + frame->payload.size();
  }
  gate_.Call([&](Connection::Handler* handler) {
    if (absl::Status fits = handler->Admit(frame->header.size(), frame->payload.size()); !fits.ok())
      return Close(absl::Status(fits.code(), absl::StrCat("connection to ", peer_name_, " was closed: ", fits.message())));
    if (!frame->payload.empty() && !hands_over_) Land(handler, &*frame);
    handler->OnFrame(*std::move(frame));
  });
  return true;
}

void MemoryEnd::Popped(size_t bulk_bytes) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    bulk_bytes_ -= bulk_bytes;
    if (!peer_waits_ || bulk_bytes_ > limits_.bulk_high_water_bytes / 2) return;
    peer_waits_ = false;
  }
  if (const std::shared_ptr<MemoryEnd> peer = peer_.lock()) peer->PeerDrained();
}

void MemoryEnd::PeerDrained() {
  strand_.Post([self = shared_from_this()] {
    if (!self->closing_) self->gate_.Call([](Connection::Handler* handler) { handler->OnBulkWritable(); });
  });
}

}  // namespace pw::net
