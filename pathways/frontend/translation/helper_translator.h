// HelperTranslator: has a process beside the controller translate programs (python/pathways/_translator.py specifies what it is sent and
// answers). It starts with the first program that may need it, and stays; programs are translated one after another.
//
// Its input is a client's bytes, so it is not trusted: its memory, its answers and the time for each program are limited. One that dies,
// exceeds a limit or answers nonsense is killed, fails the program that it was at, and is started again for the next.
//
// Threads. Translate and Prepare on the strand; a thread of its own speaks to the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/child_process.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/frontend/translation/program_translator.h"

namespace pw::frontend {

class HelperTranslator final : public ProgramTranslator {
 public:
  struct Options {
    std::vector<std::string> command;
    absl::Duration limit = absl::Seconds(60);  // for each program, the start of the process included
    int64_t address_space_bytes = int64_t{8} << 30;
    size_t max_waiting_bytes = size_t{512} << 20;  // of the programs whose turn has not come
  };

  // `timers` and `strand` outlive it; the strand also runs what it has posted there.
  HelperTranslator(Options options, Timers* timers, Executor* strand);
  // Ends the process. Programs that wait fail.
  ~HelperTranslator() override;

  void Prepare() override;
  void Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) override;

 private:
  // One program's time. Ends once: when the process has answered, or when the limit has passed.
  enum class Turn : uint8_t { kRunning, kDone, kTimedOut };

  absl::StatusOr<Bytes> TranslateNow(const Bytes& program, const std::string& version);
  absl::StatusOr<Bytes> Ask(const Bytes& program, const std::string& version, const std::atomic<Turn>& turn);

  const Options options_;
  Timers* const timers_;
  Executor* const strand_;
  const std::shared_ptr<ChildProcess> process_;  // the timers' too
  std::atomic<size_t> waiting_bytes_{0};
  std::atomic<bool> stopping_{false};
  bool prepared_ = false;
  ThreadPool thread_{"pw-translator", 1};  // last: joined before what it uses goes
};

}  // namespace pw::frontend
