// StopSignal: what main() of our processes waits for: SIGTERM, SIGINT, or the end of the process that started it.
//
//   StopSignal stop;             // first thing in main, before any thread starts: threads inherit the blocked signals
//   ... start everything ...
//   PW_LOG_INFO << stop.Wait(exit_with_parent);
//
// The parent is watched through a file descriptor, not through a death signal: that one fires when the *thread* ends that started
// us.
#pragma once

#include <sys/types.h>

#include <string>

namespace pw {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  // Blocks until it is time to stop and says why, in words.
  std::string Wait(bool exit_with_parent);

 private:
  const pid_t parent_;
  int parent_fd_;  // readable when the parent has ended; -1: the parent is not to be watched
  int signal_fd_;
};

}  // namespace pw
