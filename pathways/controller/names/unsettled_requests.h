// UnsettledRequests: counts the holds on each request of a session. A request is held as long as commands may be sent under its names or its
// client may be told something: by the code that carries it out, by commands that have not ended, by work that goes on later (NameScope), and by
// answers that the client has not acknowledged. When the last hold ends, the request is *done*. No controller will carry it out again.
//
// A client whose session another controller can restore keeps its requests until it knows that they are done, and would have that controller carry
// them out again. So a done request of such a session is settled only when the client knows it: TakeDone, then the end of what it returns. All
// other done requests are settled at once. Hosts may forget the names of settled requests (worker.proto, Settled).
//
// Pure.
//
// Invariants:
//   NU-1  a request begins with its first hold, if it is later than all before; else a hold of a request that is not held does nothing
//   NU-2  a done request stays done, and a settled one settled
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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

  // From now on done requests are settled only when the client knows.
  void AwaitClient() { awaits_client_ = true; }
  // All requests up to this one are done.
  uint64_t done_up_to() const;
  // Returns how many requests are done, and have not been taken to be told to the client.
  size_t untold() const { return untold_.size(); }
  // Returns how many requests are not settled.
  size_t unsettled() const { return open_.size(); }
  // Returns the ranges of the requests that are done and not taken, the first and the last of each, ascending. The client knows of them when
  // `known` ends.
  struct Done {
    std::vector<uint64_t> ranges;
    std::shared_ptr<void> known;
  };
  static Done TakeDone(const std::shared_ptr<UnsettledRequests>& requests);
  // All requests up to this one have begun: those that are not held are settled.
  void Skip(uint64_t request) { last_ = std::max(last_, request); }

  // Called when the client knows of done requests.
  void OnSettled(std::function<void()> listener) { on_settled_ = std::move(listener); }

  // Returns how many requests have been settled.
  uint64_t settled() const { return settled_; }
  // All requests up to this one are settled.
  uint64_t settled_up_to() const { return open_.empty() ? last_ : open_.begin()->first - 1; }
  // Returns the ranges of settled requests after that, the first and the last of each, ascending: at most the last `most` ranges.
  std::vector<uint64_t> SettledAfter(size_t most) const;

 private:
  void Settle(const std::vector<uint64_t>& requests);

  std::map<uint64_t, uint64_t> open_;  // number of holds, by request; 0: it is done, and the client does not know
  bool awaits_client_ = false;
  std::vector<uint64_t> untold_;
  std::function<void()> on_settled_;
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
