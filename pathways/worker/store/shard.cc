#include "pathways/worker/store/shard.h"

#include <algorithm>
#include <utility>

#include "pathways/base/log.h"

namespace pw::worker {
namespace {

void CallAll(std::vector<Shard::Callback>* callbacks) {
  std::vector<Shard::Callback> now;
  now.swap(*callbacks);
  for (Shard::Callback& callback : now) std::move(callback)();
}

}  // namespace

int64_t DeviceBytes(buffers::DType dtype, const device::Dims& dims) {
  constexpr int64_t kMost = int64_t{1} << 52;  // more than any device has, but small enough to add up several
  __int128 bits = buffers::DeviceBits(dtype);
  for (int64_t d : dims) bits = std::min<__int128>(bits * d, __int128{kMost} * 8);
  return static_cast<int64_t>((bits + 7) / 8);
}

Shard::Contents::Contents(std::shared_ptr<MemoryLedger> ledger, int device, SessionId session,
                          std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes)
    : ledger(std::move(ledger)), device(device), session(session), buffer(std::move(buffer)), bytes(bytes) {
  if (bytes != 0) this->ledger->Charge(device, session, bytes);
}

Shard::Contents::~Contents() {
  buffer.reset();
  if (bytes != 0) ledger->Refund(device, session, bytes);
}

Shard::~Shard() { Consume(); }

std::shared_ptr<Shard> Shard::Failed(absl::Status error) {
  auto shard = std::make_shared<Shard>(nullptr, 0, SessionId());
  shard->SetFailed(std::move(error));
  return shard;
}

void Shard::SetLive(std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes) {
  PW_CHECK(state_ == State::kPending);
  state_ = State::kLive;
  Hold(std::move(buffer), bytes);
  CallAll(&on_live_);
}

void Shard::Share(const Shard& other) {
  PW_CHECK(state_ == State::kPending && other.contents_ != nullptr && other.device_ == device_ && !promised && !other.promised);
  state_ = State::kLive;
  contents_ = other.contents_;
  CallAll(&on_live_);
}

void Shard::Hold(std::unique_ptr<device::DeviceBuffer> buffer, int64_t bytes) {
  contents_ = nullptr;  // first: this may free memory
  contents_ = std::make_shared<Contents>(ledger_, device_, session_, std::move(buffer), bytes);
}

void Shard::SetReady() {
  PW_CHECK(state_ == State::kLive);
  state_ = State::kReady;
  Settle();
}

void Shard::SetFailed(absl::Status error) {
  PW_CHECK(!settled());
  state_ = State::kFailed;
  error_ = std::move(error);
  Consume();
  CallAll(&on_live_);
  Settle();
}

void Shard::Settle() { CallAll(&on_settled_); }

void Shard::MoveOut(std::unique_ptr<device::DeviceBuffer> buffer) {
  PW_CHECK(state_ == State::kReady && moved_bytes_ == 0);
  moved_bytes_ = bytes();
  Hold(std::move(buffer), 0);
  ledger_->MovedOut(device_, session_, moved_bytes_);
}

void Shard::MoveBack(std::unique_ptr<device::DeviceBuffer> buffer) {
  PW_CHECK(state_ == State::kReady && moved_bytes_ != 0);
  const int64_t bytes = std::exchange(moved_bytes_, 0);
  ledger_->MovedOut(device_, session_, -bytes);
  Hold(std::move(buffer), bytes);
}

void Shard::Consume() {
  contents_ = nullptr;
  if (moved_bytes_ != 0) ledger_->MovedOut(device_, session_, -std::exchange(moved_bytes_, 0));
}

std::unique_ptr<device::DeviceBuffer> Shard::Take() {
  PW_CHECK(!shared());
  std::unique_ptr<device::DeviceBuffer> buffer = contents_ == nullptr ? nullptr : std::move(contents_->buffer);
  Consume();
  return buffer;
}

void Shard::OnLive(Callback callback) {
  if (state_ != State::kPending) return std::move(callback)();
  on_live_.push_back(std::move(callback));
}

void Shard::OnSettled(Callback callback) {
  if (settled()) return std::move(callback)();
  on_settled_.push_back(std::move(callback));
}

}  // namespace pw::worker
