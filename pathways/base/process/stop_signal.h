// StopSignal: lets main() of our processes wait for SIGTERM, SIGINT, or the end of the parent process.
//
//   StopSignal stop;             // first thing in main, before any thread starts: threads inherit the blocked signals
//   ... start everything ...
//   PW_LOG_INFO << stop.Wait(exit_with_parent);
//
// It watches the parent through a file descriptor, not through a death signal: a death signal fires when the parent *thread*
// that started this process ends.
#pragma once

#include <sys/types.h>

#include <string>

namespace pw {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  // Blocks until the process should stop. Returns the reason in words.
  std::string Wait(bool exit_with_parent);

 private:
  const pid_t parent_;
  int parent_fd_;  // readable when the parent has ended; -1: it could not be opened
  int signal_fd_;
};

}  // namespace pw
