#include "pathways/net/sockets/stream_writer.h"

#include <errno.h>

#include <utility>

namespace pw::net {

StreamWriter::StreamWriter(Channel* channel, size_t high_water_bytes) : channel_(channel), high_water_(high_water_bytes) {}

bool StreamWriter::Add(OutFrame frame) {
  std::lock_guard<std::mutex> lock(mu_);
  if (stopped_) return false;
  if (frame.lane == Lane::kBulk) bulk_bytes_.fetch_add(frame.size(), std::memory_order_relaxed);
  queue_.Push(std::move(frame));
  return !std::exchange(token_held_, true);
}

// Accounts for the finished batch and loads the next. kDrained: there is no next batch, and the token is free.
StreamWriter::Next StreamWriter::NextBatch() {
  const size_t bulk_done = batch_.bulk_bytes();
  spare_ = batch_.Clear();
  {
    std::lock_guard<std::mutex> lock(mu_);
    const size_t left = bulk_bytes_.fetch_sub(bulk_done, std::memory_order_relaxed) - bulk_done;
    if (bulk_waiter_ && left <= high_water_ / 2) {
      bulk_waiter_ = false;
      bulk_writable_ = true;
    }
    queue_.Take(&spare_);
    if (spare_.empty()) {
      if (stopped_) return Next::kStopped;
      token_held_ = false;
      return Next::kDrained;
    }
  }
  batch_.Load(std::exchange(spare_, {}));
  return Next::kLoaded;
}

StreamWriter::Result StreamWriter::Run(size_t budget_bytes) {
  if (error_ != 0) return Result::kFailed;
  size_t written = 0;
  while (true) {
    if (batch_.done()) {
      if (const int error = channel_->Flush(); error != 0) return Stopped(error);
      const Next next = NextBatch();
      if (next == Next::kDrained) return Result::kDrained;
      if (next == Next::kStopped) return Result::kStopped;
    }
    if (written >= budget_bytes) return Result::kMore;
    const ssize_t n = channel_->Write(batch_.Pending());
    if (n >= 0) {
      batch_.Advance(static_cast<size_t>(n));
      written += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      return Stopped(errno);
    }
  }
}

StreamWriter::Result StreamWriter::Stopped(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) return Result::kBlocked;
  error_ = error;
  return Result::kFailed;
}

bool StreamWriter::Stop() {
  std::deque<OutFrame> dropped;  // freed after the lock is released
  std::lock_guard<std::mutex> lock(mu_);
  stopped_ = true;
  dropped = queue_.TakeBulk();
  return !std::exchange(token_held_, true);
}

void StreamWriter::Clear() {
  batch_.Clear();
  spare_ = {};
  SendQueue dropped;  // freed after the lock is released
  std::lock_guard<std::mutex> lock(mu_);
  std::swap(dropped, queue_);
}

bool StreamWriter::CanSendBulk() const {
  if (bulk_bytes_.load(std::memory_order_relaxed) <= high_water_) return true;
  std::lock_guard<std::mutex> lock(mu_);
  if (bulk_bytes_.load(std::memory_order_relaxed) <= high_water_) return true;
  bulk_waiter_ = true;
  return false;
}

}  // namespace pw::net
