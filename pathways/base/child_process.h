// ChildProcess: a program that this process starts for itself and speaks to over one connection, its standard input and output.
//
// It inherits the standard error and nothing else that is open here; it is in a process group of its own, so that a terminal's Ctrl-C does
// not reach it. It sees the end of its input when this process closes the connection, or ends.
//
// Threads. One thread at a time starts it, writes, reads and ends it; these calls block. Any thread may Kill it meanwhile, which is how a time
// limit is set: the blocked call fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace pw {

class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> command;  // the first is searched for in PATH
    int64_t address_space_bytes = 0;   // 0: no limit
  };

  explicit ChildProcess(Options options) : options_(std::move(options)) {}
  ~ChildProcess();

  // Starts it unless it runs. One that has ended meanwhile, or has said what nobody asked for, is started anew.
  absl::Status EnsureRunning();
  // UNAVAILABLE if it has closed the connection or ended.
  absl::Status Write(std::string_view bytes);
  absl::Status Read(void* to, size_t size);
  // Kills it and waits for its end; says how it ended, if not by this.
  std::string End();

  // Any thread. Kills the one that runs, if any.
  void Kill();

 private:
  absl::Status Start();
  // It runs, and has said nothing that was not read.
  bool IsListening() const;

  const Options options_;
  std::mutex mu_;  // guards the two against Kill: while they are set the process has not been waited for, and the socket is open
  pid_t pid_ = 0;
  int socket_ = -1;
};

}  // namespace pw
