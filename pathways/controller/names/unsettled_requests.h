// UnsettledRequests: counts the holds on each request of a session. A request is held as long as commands may be sent under its names or its
// client may be told something: by the code that carries it out, by commands that have not ended, by work that goes on later (NameScope), and by
// answers that the client has not acknowledged. When the last hold ends, the request is settled for good. No controller will carry it out again,
// and hosts may forget its names (worker.proto, Settled).
//
// Pure.
//
// Invariants:
//   NU-1  a request begins with its first hold, if it is later than all before; else a hold of a request that is not open does nothing
//   NU-2  a settled request stays settled
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace pw::controller {

class UnsettledRequests {
 public:
  UnsettledRequests() = default;
  UnsettledRequests(const UnsettledRequests&) = delete;

  void Hold(uint64_t request);
  void Release(uint64_t request);

  // Returns how many requests have been settled.
  uint64_t settled() const { return settled_; }
  // All requests up to this one are settled.
  uint64_t settled_up_to() const { return open_.empty() ? last_ : open_.begin()->first - 1; }
  // Returns the ranges of settled requests after that, the first and the last of each, ascending: at most the last `most` ranges.
  std::vector<uint64_t> SettledAfter(size_t most) const;

 private:
  std::map<uint64_t, uint64_t> open_;  // number of holds, never 0, by request
  uint64_t last_ = 0;                  // that has begun
  uint64_t settled_ = 0;
  // Most calls concern the same request as the call before.
  uint64_t latest_ = 0;
  uint64_t* holds_of_latest_ = nullptr;
};

// One hold of a request; may hold none. A copy is one more.
class RequestHold {
 public:
  RequestHold() = default;
  RequestHold(std::shared_ptr<UnsettledRequests> of, uint64_t request) : of_(std::move(of)), request_(request) {
    if (of_ != nullptr) of_->Hold(request_);
  }
  RequestHold(const RequestHold& other) : RequestHold(other.of_, other.request_) {}
  RequestHold(RequestHold&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), request_(std::exchange(other.request_, 0)) {}
  RequestHold& operator=(RequestHold other) noexcept {
    std::swap(of_, other.of_);
    std::swap(request_, other.request_);
    return *this;
  }
  ~RequestHold() {
    if (of_ != nullptr) of_->Release(request_);
  }

 private:
  std::shared_ptr<UnsettledRequests> of_;
  uint64_t request_ = 0;
};

}  // namespace pw::controller
