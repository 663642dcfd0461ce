#include "pathways/net/resumable/resumable_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::net {

size_t ResumableStream::Message::cost() const {
  size_t bytes = kMessageCost + header.size();
  for (const Bytes& piece : payload) bytes += piece.size();
  return bytes;
}

uint64_t ResumableStream::Append(Message message) {
  kept_bytes_ += message.cost();
  kept_.push_back(std::move(message));
  return last_appended();
}

ResumableStream::Batch ResumableStream::Take(size_t max_bytes) {
  Batch batch;
  batch.first = sent_ + 1;
  for (size_t bytes = 0; has_unsent() && (bytes == 0 || bytes < max_bytes); ++sent_) {
    const Message& message = kept_[sent_ - acknowledged_];
    bytes += message.cost();
    in_flight_bytes_ += message.cost();
    batch.messages.push_back(&message);
  }
  return batch;
}

void ResumableStream::ForEachKept(absl::FunctionRef<void(uint64_t, const Message&)> visit) const {
  for (size_t i = 0; i < kept_.size(); ++i) visit(acknowledged_ + 1 + i, kept_[i]);
}

void ResumableStream::Restart(uint64_t number, std::deque<Message>* taken) {
  sent_ = last_appended();
  in_flight_bytes_ = kept_bytes_;
  Acknowledge(number, taken).IgnoreError();  // it has been appended
  sent_ = std::max(number, acknowledged_);
  in_flight_bytes_ = 0;
  received_ = 0;
}

absl::Status ResumableStream::Acknowledge(uint64_t number, std::deque<Message>* taken) {
  if (number > sent_) {
    return absl::InvalidArgumentError(
        absl::StrCat("message ", number, " is acknowledged, but the last one that was sent is ", sent_));
  }
  for (; acknowledged_ < number; ++acknowledged_) {
    const size_t size = kept_.front().cost();
    kept_bytes_ -= size;
    in_flight_bytes_ -= size;
    if (taken != nullptr) taken->push_back(std::move(kept_.front()));
    kept_.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ResumableStream::Receive(uint64_t first, size_t count) {
  if (first == 0 || first > received_ + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch begins with message ", first, ", but the last one that arrived is ", received_));
  }
  const uint64_t known = std::min<uint64_t>(received_ + 1 - first, count);
  received_ = std::max(received_, first + count - 1);
  return static_cast<size_t>(known);
}

absl::Status ResumableStream::CheckResume(uint64_t number) const {
  if (number >= acknowledged_ && number <= last_appended()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the other end says that it has received message ", number, "; messages ",
                                                 acknowledged_ + 1, " to ", last_appended(), " are kept here"));
}

absl::Status ResumableStream::Resume(uint64_t number, std::deque<Message>* taken) {
  PW_RETURN_IF_ERROR(CheckResume(number));
  sent_ = last_appended();  // the other end may acknowledge any message that was sent on the old connection
  in_flight_bytes_ = kept_bytes_;
  PW_RETURN_IF_ERROR(Acknowledge(number, taken));
  sent_ = number;
  in_flight_bytes_ = 0;
  return absl::OkStatus();
}

}  // namespace pw::net
