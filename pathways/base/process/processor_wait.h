// ProcessorWait: tells whether a process of this machine waits for a processor. On a machine with far more to do than its processors can, a
// process may wait for ten seconds and more. Its silence then says nothing about its state.
//
// Linux shows the state and the processor time of each thread of a process. A thread waits if it is runnable at two looks, and was
// given hardly any processor time between them. A thread that computes without end is given some; a thread that hangs, or a process
// that is stopped, is not runnable.
// Confined to its owner's strand.
#pragma once

#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace pw {

class ProcessorWait {
 public:
  explicit ProcessorWait(int64_t pid) : pid_(pid) {}

  // Looks at the process's threads. Returns whether one of them has waited since the last look. False at the first look, and if the
  // process has ended or may not be looked at.
  bool Look(absl::Time now);

 private:
  struct Thread {
    bool runnable = false;
    int64_t used_ns = 0;  // processor time since it began
  };
  std::map<int64_t, Thread> Threads() const;

  const int64_t pid_;
  absl::Time last_ = absl::InfinitePast();
  std::map<int64_t, Thread> threads_;  // at the last look
};

}  // namespace pw
