// How far another machine's clock is from ours, from questions that it answered with its time.
//
// It read its clock somewhere between our asking and our hearing: the middle is off by at most half of that, so the fastest answer is
// the best.
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

  // To be added to their times. Zero before any answer.
  absl::Duration to_ours() const { return to_ours_; }
  absl::Duration error() const { return error_; }

 private:
  absl::Duration to_ours_ = absl::ZeroDuration();
  absl::Duration error_ = absl::InfiniteDuration();
};

}  // namespace pw::trace
