// HelperTranslator: lets a process beside the front end translate programs (python/pathways/_translator.py specifies its input
// and output). The process starts with the first program that may need it and stays. It translates one program after another.
//
// The process reads a client's bytes, so it is not trusted: its memory, its answers and its time for each program are limited. If it dies,
// exceeds a limit or gives an invalid answer, it is killed, the current program fails, and it is started again for the next one.
//
// Threads. Translate and Prepare run on the strand; another thread communicates with the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/process/child_process.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/frontend/translation/program_translator.h"

namespace pw::frontend {

class HelperTranslator final : public ProgramTranslator {
 public:
  struct Options {
    std::vector<std::string> command;
    absl::Duration limit = absl::Seconds(60);  // for each program, the start of the process included
    int64_t address_space_bytes = int64_t{8} << 30;
    size_t max_waiting_bytes = size_t{512} << 20;  // of waiting programs
  };

  // `timers` and `strand` must outlive this, and the tasks that it has posted to the strand.
  HelperTranslator(Options options, Timers* timers, Executor* strand);
  // Ends the process. Waiting programs fail.
  ~HelperTranslator() override;

  void Prepare() override;
  void Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) override;

 private:
  // State of one program. It ends once: when the process has answered, or when the limit has passed.
  enum class Turn : uint8_t { kRunning, kDone, kTimedOut };

  absl::StatusOr<Bytes> TranslateNow(const Bytes& program, const std::string& version);
  absl::StatusOr<Bytes> Ask(const Bytes& program, const std::string& version, const std::atomic<Turn>& turn);

  const Options options_;
  Timers* const timers_;
  Executor* const strand_;
  const std::shared_ptr<ChildProcess> process_;  // shared with timers
  std::atomic<size_t> waiting_bytes_{0};
  std::atomic<bool> stopping_{false};
  bool prepared_ = false;
  ThreadPool thread_{"pw-translator", 1};  // last: joined before the members that it uses are destroyed
};

}  // namespace pw::frontend
