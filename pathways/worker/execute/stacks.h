// Stacks: tells the controller where the threads are on which a computation that hangs may wait. These are the worker's own, those of the clients'
// programs, whose Python functions computations call, and those of the clients' Python processes on this host.
//
// Invariants:
//   XS-1  each question is answered once, after kPatience at the latest if there are timers, with the processes that have answered
// Lives on the worker's strand.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/worker/execute/host_calls.h"
#include "pathways/worker/python/functions.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class Stacks {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(2);
  static constexpr size_t kMostBytes = 64 << 10;  // of one process's text
  static constexpr int kMostSessions = 8;
  using Done = std::function<void(const pathways::v1::Stacks&)>;

  struct Parts {
    WorkerContext* context;
    HostCalls* calls;
    Functions* functions;
    Timers* timers;                       // may be null
    std::shared_ptr<Executor> threads;    // starts each task at once (base/threads/growing_pool.h); may be null
    std::function<std::string()> native;  // returns the worker's own stacks; may take a second. Null: they are not told
  };
  explicit Stacks(Parts parts) : parts_(std::move(parts)) {}

  // `done` runs on the strand, maybe inside this call.
  void Collect(const pathways::v1::StackQuestion& question, Done done);

 private:
  struct Answer;
  using Told = std::function<void(absl::StatusOr<std::string>)>;
  Told Expect(const std::shared_ptr<Answer>& answer, std::string process) const;
  void AskProgram(SessionId session, const std::shared_ptr<Answer>& answer);

  const Parts parts_;
};

}  // namespace pw::worker
