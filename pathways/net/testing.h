// Test helpers of this folder: a recording handler, a mailbox between threads, and byte patterns. For tests only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "pathways/net/transport.h"

namespace pw::net {

// The time after which a missing event fails a test. A passing test never waits this long.
inline constexpr std::chrono::seconds kPatience{60};

// A value that another thread delivers.
template <class T>
class Mailbox {
 public:
  void Put(T value) {
    std::lock_guard<std::mutex> lock(mu_);
    value_.emplace(std::move(value));
    changed_.notify_all();
  }
  T Take() {
    std::unique_lock<std::mutex> lock(mu_);
    if (!changed_.wait_for(lock, kPatience, [this] { return value_.has_value(); })) {
      ADD_FAILURE() << "nothing came";
      std::abort();
    }
    return *std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::optional<T> value_;
};

// Records every frame and event. A hook, if set before Start, is called first with each frame, on the delivering thread.
class Recorder : public Connection::Handler {
 public:
  std::function<void(const Frame&)> on_frame;
  std::function<void()> on_closed;

  void OnFrame(Frame frame) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.payload.data()) % 64, 0u);
    if (on_frame) on_frame(frame);
    std::lock_guard<std::mutex> lock(mu_);
    EXPECT_FALSE(closed_.has_value()) << "a frame after OnClosed";
    frames_.push_back(std::move(frame));
    changed_.notify_all();
  }
  void OnClosed(const absl::Status& reason) override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      EXPECT_FALSE(closed_.has_value()) << "OnClosed twice";
      closed_ = reason;
      changed_.notify_all();
    }
    if (on_closed) on_closed();
  }
  void OnBulkWritable() override {
    std::lock_guard<std::mutex> lock(mu_);
    ++writable_;
    changed_.notify_all();
  }

  // Waits for `count` frames and returns all frames received.
  std::vector<Frame> WaitFrames(size_t count) {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return frames_.size() >= count || closed_.has_value(); }));
    EXPECT_GE(frames_.size(), count) << (closed_ ? closed_->ToString() : "");
    return frames_;
  }
  absl::Status WaitClosed() {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return closed_.has_value(); })) << "OnClosed never came";
    return closed_.value_or(absl::OkStatus());
  }
  void WaitWritable(int count) {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return writable_ >= count; })) << "OnBulkWritable never came";
  }
  std::vector<Frame> frames() {
    std::lock_guard<std::mutex> lock(mu_);
    return frames_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Frame> frames_;
  std::optional<absl::Status> closed_;
  int writable_ = 0;
};

inline Bytes Pattern(size_t size, uint8_t seed) {
  AlignedBytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes.data()[i] = static_cast<uint8_t>(seed + i * 131 + (i >> 12));
  return std::move(bytes).Freeze();
}

}  // namespace pw::net
