// ChildProcess: a helper program that this process starts and talks to over one connection, the program's standard input and output.
//
// The child inherits the standard error and no other open descriptor. It is in a process group of its own, so a terminal's Ctrl-C does
// not reach it. Its input ends when this process closes the connection or exits.
//
// Threads: one thread at a time starts, writes, reads and ends the child; these calls block. Any other thread may call Kill
// meanwhile, to enforce a time limit: the blocked call then fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pw {

class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> command;       // the first is searched for in PATH
    int64_t address_space_bytes = 0;        // 0: no limit
    std::vector<std::string> without = {};  // environment variables that the child does not inherit
    std::vector<std::string> with = {};     // NAME=VALUE of variables that the child gets in addition, unless it inherits one of that name
  };

  explicit ChildProcess(Options options) : options_(std::move(options)) {}
  ~ChildProcess();

  // Starts the child if it is not running. Restarts it if it has ended or has sent bytes that were not read.
  absl::Status EnsureRunning();
  // Write and Read return UNAVAILABLE if the child has closed the connection or ended.
  absl::Status Write(std::string_view bytes);
  absl::Status Read(void* to, size_t size);
  // Reads the bytes that have arrived, at least one, and returns their number.
  absl::StatusOr<size_t> ReadSome(void* to, size_t size);
  // Kills the child, waits for its end, and returns how it ended.
  std::string End();

  // Kills the child if it is running, and all processes of its process group. Any thread.
  void Kill();
  // Returns 0 if the child is not running. Any thread.
  pid_t pid() const;

 private:
  absl::Status Start();
  // Returns true if the child is connected and all bytes that it sent have been read.
  bool IsListening() const;

  const Options options_;
  mutable std::mutex
      mu_;  // guards pid_ and socket_ against Kill: while they are set, the process is unreaped and the socket is open
  pid_t pid_ = 0;
  int socket_ = -1;
};

}  // namespace pw
