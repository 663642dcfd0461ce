// Executor: runs functions later. Our code changes threads only through this interface.
#pragma once

#include "absl/functional/any_invocable.h"

namespace pw {

using Task = absl::AnyInvocable<void() &&>;

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `task` at some later time, never inside this call. Any thread.
  virtual void Post(Task task) = 0;
};

}  // namespace pw
