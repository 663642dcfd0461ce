#include "pathways/relay/store_ahead.h"

#include <algorithm>
#include <utility>

#include "pathways/base/status_macros.h"

namespace pw::relay {
namespace {

using pathways::v1::BulkFrame;
// As much as is read while it is still in the processor's caches from the writing, and sent from there.
constexpr int64_t kPiece = 1 << 20;

}  // namespace

void StoreAhead::Look(bulk::Line& line, uint64_t call, absl::Time now) {
  if (state_ != State::kWatching && state_ != State::kSending) return;
  const absl::StatusOr<int64_t> grown = file_.Look();
  const int64_t before = sent_;
  const bool sound = grown.ok() && (state_ != State::kSending || SendPieces(line, call, *grown).ok());
  if (sent_ > before || !line.CanSend()) moved_ = now;
  const bool cut_short = finish_.has_value() && grown.ok() && *grown < file_.size();
  if (!sound || cut_short || (!finish_.has_value() && now - moved_ > kPatience)) return Withdraw(line, call);
  if (state_ == State::kWatching && *grown > 0) return Ask(line, call);
  if (sent_ == file_.size() && finish_.has_value()) {
    state_ = State::kSent;
    line.SendDone(call, absl::OkStatus());
  }
}

void StoreAhead::Ask(bulk::Line& line, uint64_t call) {
  state_ = State::kAsked;
  BulkFrame frame;
  frame.set_call(call);
  frame.mutable_store()->set_session(session_);
  frame.mutable_store()->set_handle(handle_);
  frame.mutable_store()->set_bytes(static_cast<uint64_t>(file_.size()));
  line.Send(frame);
}

absl::Status StoreAhead::SendPieces(bulk::Line& line, uint64_t call, int64_t grown) {
  while (sent_ < grown && line.CanSend()) {
    const int64_t bytes = std::min(kPiece, grown - sent_);
    if (bytes < kPiece && grown < file_.size()) break;  // more comes
    AlignedBytes piece(static_cast<size_t>(bytes));
    PW_RETURN_IF_ERROR(file_.Read(sent_, piece.data(), piece.size()));
    line.SendParts(call, std::move(piece).Freeze(), static_cast<uint64_t>(sent_));
    sent_ += bytes;
  }
  return absl::OkStatus();
}

void StoreAhead::Ready(bulk::Line& line, uint64_t call) {
  ready_ = true;
  if (state_ == State::kAsked) {
    state_ = State::kSending;
  } else if (state_ == State::kWithdrawn) {
    line.SendDone(call, absl::CancelledError("withdrawn"));
  }
}

// The word for it is the end of a store with an error, which the controller takes only once it has said ready.
void StoreAhead::Withdraw(bulk::Line& line, uint64_t call) {
  if (state_ == State::kWatching) {
    state_ = State::kOver;
    return;
  }
  state_ = State::kWithdrawn;
  if (ready_) line.SendDone(call, absl::CancelledError("withdrawn"));
}

void StoreAhead::Ended(const absl::Status& status) {
  if (state_ == State::kWithdrawn) return Lose();
  answer_ = status;
  state_ = State::kAnswered;
  if (finish_.has_value()) Answer();
}

void StoreAhead::Answer() {
  state_ = State::kOver;
  file_.Remove();
  std::move(std::exchange(finish_, std::nullopt)->done)(answer_);
}

void StoreAhead::Whole(bulk::Line& line, uint64_t call, int64_t bytes, Finish finish) {
  finish_ = std::move(finish);
  if (state_ == State::kWatching) return Lose();
  if (state_ == State::kAnswered) return Answer();
  if (bytes != file_.size() && state_ != State::kWithdrawn) Withdraw(line, call);
}

void StoreAhead::Drop(bulk::Line& line, uint64_t call) {
  if (finish_.has_value()) return;  // who waits is told how it ends
  if (state_ == State::kAsked || state_ == State::kSending) return Withdraw(line, call);
  if (state_ != State::kWithdrawn) state_ = State::kOver;
}

void StoreAhead::Lose() {
  state_ = State::kOver;
  if (finish_.has_value()) std::move(std::exchange(finish_, std::nullopt)->otherwise)();
}

}  // namespace pw::relay
