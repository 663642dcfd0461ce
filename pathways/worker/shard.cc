#include "pathways/worker/shard.h"

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
  constexpr int64_t kMost = int64_t{1} << 52;  // more than any device has; sums of some of them are numbers too
  __int128 bits = buffers::DeviceBits(dtype);
  for (int64_t d : dims) bits = std::min<__int128>(bits * d, __int128{kMost} * 8);
  return static_cast<int64_t>((bits + 7) / 8);
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
  buffer_ = std::move(buffer);
  bytes_ = bytes;
  ledger_->Charge(device_, session_, bytes_);
  CallAll(&on_live_);
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
  buffer_ = std::move(buffer);
  ledger_->Refund(device_, session_, bytes_);
  ledger_->MovedOut(bytes_);
  moved_bytes_ = std::exchange(bytes_, 0);
}

void Shard::MoveBack(std::unique_ptr<device::DeviceBuffer> buffer) {
  PW_CHECK(state_ == State::kReady && moved_bytes_ != 0);
  buffer_ = std::move(buffer);
  bytes_ = std::exchange(moved_bytes_, 0);
  ledger_->MovedOut(-bytes_);
  ledger_->Charge(device_, session_, bytes_);
}

void Shard::Consume() {
  buffer_.reset();
  if (moved_bytes_ != 0) ledger_->MovedOut(-std::exchange(moved_bytes_, 0));
  if (bytes_ != 0) ledger_->Refund(device_, session_, bytes_);
  bytes_ = 0;
}

std::unique_ptr<device::DeviceBuffer> Shard::Take() {
  std::unique_ptr<device::DeviceBuffer> buffer = std::move(buffer_);
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
