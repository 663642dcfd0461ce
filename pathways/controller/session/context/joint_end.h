// JointEnd: calls a function once several hosts have ended their parts of one step, with the first error. Strand-confined.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace pw::controller {

class JointEnd {
 public:
  using Done = std::function<void(const absl::Status&)>;

  JointEnd(size_t parts, Done done) : left_(parts), done_(std::move(done)) {}

  void EndOne(const absl::Status& one) {
    status_.Update(one);
    if (--left_ == 0) done_(status_);
  }

 private:
  size_t left_;
  absl::Status status_;
  Done done_;
};

}  // namespace pw::controller
