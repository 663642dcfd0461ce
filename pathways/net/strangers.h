// Strangers: the connections of a server whose peers are not authenticated yet. Each gets kGreetingTime to authenticate, and at
// most kMost wait at a time: one more drops the oldest. So strangers cost bounded memory, and a crowd of them does not keep out a
// peer that authenticates at once.
//
// It only keeps the list; the owner closes connections and measures the time. Confined to the owner's strand.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace pw::net {

template <class Id>
class Strangers {
 public:
  static constexpr absl::Duration kGreetingTime = absl::Seconds(5);
  static constexpr size_t kMost = 64;

  // Adds a connection. Returns the connection that it replaces, which the owner closes with TooMany().
  std::optional<Id> Add(Id id) {
    waiting_.push_back(id);
    if (waiting_.size() <= kMost) return std::nullopt;
    const Id oldest = waiting_.front();
    waiting_.pop_front();
    return oldest;
  }
  // Removes a connection that was authenticated or closed. Returns false if it was not waiting.
  bool Remove(Id id) { return std::erase(waiting_, id) != 0; }
  std::optional<Id> oldest() const { return waiting_.empty() ? std::nullopt : std::optional<Id>(waiting_.front()); }

  static absl::Status TooMany() { return absl::ResourceExhaustedError("too many others wait to be let in: try again"); }
  static absl::Status TooSlow() {
    return absl::DeadlineExceededError(absl::StrCat("no hello came within ", absl::FormatDuration(kGreetingTime)));
  }

 private:
  std::deque<Id> waiting_;  // the oldest first
};

}  // namespace pw::net
