// ClockOffset: estimates the offset of another machine's clock from the times in its answers to our requests.
//
// The other machine reads its clock between our request and its answer. The midpoint is off by at most half the round trip, so the
// fastest answer gives the best estimate.
#pragma once

#include "absl/time/time.h"

namespace pw::trace {

class ClockOffset {
 public:
  void AddAnswer(absl::Time asked, absl::Time theirs, absl::Time heard) {
    if (heard - asked >= 2 * error_) return;
    error_ = (heard - asked) / 2;
    to_ours_ = asked + error_ - theirs;
  }

  // Returns the duration to add to the other clock's times. Zero before any answer.
  absl::Duration to_ours() const { return to_ours_; }
  absl::Duration error() const { return error_; }

 private:
  absl::Duration to_ours_ = absl::ZeroDuration();
  absl::Duration error_ = absl::InfiniteDuration();
};

}  // namespace pw::trace
