// ProgramExecutor: executes programs on this host's devices in command order, as far as inputs allow (hazards.h).
//
// Invariants:
//   EX-1  one call enqueues an execution on all its devices, in the order of grants (launch_order.h)
//   EX-2  launch ids are unique for the life of the process; a launch over several hosts has the same id on all of them
//   EX-3  an argument is donated only if nothing else can still need it: no other name, no parked reader, no second use in the call
//   EX-4  a launch over several hosts that fails here, before or after it began, is reported as LaunchFailed, because the others wait for
//         it
//   EX-5  if a command asks for it, one message says, at the latest at the end, that the execution has its turn or never will
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/execute/programs.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/launch_order.h"
#include "pathways/worker/store/spill.h"

namespace pw::worker {

class ProgramExecutor {
 public:
  // All outlive this.
  struct Dependencies {
    WorkerContext* context;
    DeviceArrays* arrays;
    LaunchOrder* order;
    Spill* spill;
    Programs* programs;
    int* next_launch_id;
    // Reports a failed launch over several hosts to the controller.
    std::function<void(const pathways::v1::LaunchFailed&)> launch_failed;
  };
  explicit ProgramExecutor(const Dependencies& dependencies);
  ~ProgramExecutor();

  void Execute(const pathways::v1::Execute& command);
  // Ends the launches over several hosts that have begun here: the other hosts may never begin theirs.
  void AbortLaunches(const absl::Status& why);
  // Returns the sessions of computations that have begun on the devices and not ended.
  std::set<SessionId> Computing() const;
  // Gives back the names of the arguments of computations that have not begun, for a Worker to which they come again.
  void Unbegin();
  // Returns the greatest number of a launch over several hosts that has come; 0: none.
  uint64_t last_launch() const { return last_launch_; }
  // Adds the unfinished executions, oldest first, up to the limit of an answer.
  void Examine(pathways::v1::Examination* examination) const;
  // Returns the runtime's launch number for a launch over several hosts. Launches of this host alone have numbers below kSpanning.
  static int LaunchNumber(uint64_t launch) { return static_cast<int>(launch % kSpanning) | kSpanning; }
  static bool SpansHosts(int launch_number) { return launch_number >= kSpanning; }

 private:
  static constexpr int kSpanning = 1 << 30;
  // Links the unfinished runs in a ring, in the order of their commands. Costs two stores a run and no allocation.
  struct Link {
    Link* before = this;
    Link* after = this;
    void InsertBefore(Link* next);
    void Remove();
  };
  struct Run;
  using RunRef = std::shared_ptr<Run>;
  static pathways::v1::Examination::Launch::State StateOf(const Run& run);

  void Resolve(const RunRef& run, uint64_t grant);
  absl::Status Check(const Run& run) const;
  Hazards::Outcome Start(const RunRef& run, const absl::Status& inputs);
  void ForgetDonated(const Run& run);
  bool MayDonate(const Run& run, int32_t argument) const;
  static std::vector<ShardRef> MovedOut(const Run& run);
  MemoryGate::Verdict Admit(const RunRef& run, absl::Status* why);
  void Launch(const RunRef& run);
  void TellEnqueued(Run& run, bool ended = false);
  static absl::Status Marked(const Run& run, const absl::Status& status);
  void Finish(const RunRef& run, const absl::Status& status);
  double Charge(Run& run, absl::Duration* took);
  void Record(const Run& run);
  void TellOthers(const Run& run, const absl::Status& status);
  int NextLaunchId();

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  LaunchOrder* const order_;
  Spill* const spill_;
  Programs* const programs_;
  int* const next_launch_id_;
  const std::function<void(const pathways::v1::LaunchFailed&)> launch_failed_;
  uint64_t last_launch_ = 0;
  Link unfinished_;
};

}  // namespace pw::worker
