// StopSignal: lets main() of our processes wait for SIGTERM, SIGINT, or the end of the parent process.
//
//   StopSignal stop;             // first thing in main, before any thread starts: threads inherit the blocked signals
//   ... start everything ...
//   PW_LOG_INFO << stop.Wait(parent);
//
// It watches the parent through a file descriptor, not through a death signal: a death signal fires when the parent *thread*
// that started this process ends. The parent says who it is: if it ended before this process looked, the kernel would name another one.
#pragma once

#include <sys/types.h>

#include <string>

namespace pw {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  // Blocks until the process should stop. Returns the reason in words. `parent`: the process that started this one, whose end stops it, too;
  // 0: its end does not.
  std::string Wait(pid_t parent);
  // Returns the signal because of which Wait has returned; 0: none has come.
  int signal() const { return signal_; }
  // Becomes readable when a signal has come.
  int descriptor() const { return signal_fd_; }
  // Takes a signal that has come, SIGTERM or SIGINT; 0: none could be read.
  int Take();

 private:
  int signal_fd_;
  int signal_ = 0;
};

}  // namespace pw
