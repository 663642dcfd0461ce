// RunResults: a session's runs whose results or ends its client may ask for. Strand-confined.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/names/unsettled_requests.h"
#include "pathways/controller/session.h"

namespace pw::controller {

struct ExecuteRun;
// A session's runs of programs with effects, and its client's requests to await them, in order: each run is answered after those before it.
// A request gets the first failure that no earlier request has got.
struct EffectRuns {
  std::deque<std::shared_ptr<ExecuteRun>> runs;
  absl::Status unreported;
};

// A run of an executable or program, until all its hosts have reported and its client has its result.
struct ExecuteRun {
  int missing = 0;  // hosts that have not reported, plus nodes that wait for values and have not ended
  absl::Status status;
  RunResult result;
  RequestHold request;                 // not settled before the client has the result
  ResultCallback<RunResult> waiter;    // callback of FetchExecuteResult, once the client has called it
  buffers::LogicalArray::Ref effects;  // ArrayEntry::effects of its results; null: none
  bool effects_are_nodes = false;      // only nodes that wait for values have callbacks; else `effects` settles with missing == 0
  std::shared_ptr<EffectRuns> order;   // null: the run is in no order, or has left it
  bool ended() const { return missing == 0 && order == nullptr; }
  // Counts a node that waits for values.
  void BeginNode() {
    ++missing;
    if (effects_are_nodes) effects->Expect(1);
  }
  void EndEffect() {
    if (effects_are_nodes) effects->OnDone(absl::OkStatus());
  }
  // Answers the waiter, if any, when it is this run's turn; then the runs that waited only for this one. REQUIRES: missing == 0.
  void AnswerWaiter(Fabric& fabric);

 private:
  void AnswerInOrder(Fabric& fabric);
};

class RunResults {
 public:
  // `fabric` must outlive this.
  explicit RunResults(Fabric* fabric) : fabric_(fabric) {}

  // Makes a run whose result Fetch answers under this handle; null for handle 0. ALREADY_EXISTS if a run has the handle.
  absl::StatusOr<std::shared_ptr<ExecuteRun>> Begin(Handle handle);
  // Puts a run of a program with effects into their order.
  void AddEffects(const std::shared_ptr<ExecuteRun>& run);
  // Answers when all runs with effects that were added so far have ended; gets the first failure that no earlier call has got.
  void AwaitEffects(StatusCallback done);
  // Answers the run's result when the run has ended. Consumes the handle.
  void Fetch(Handle handle, ResultCallback<RunResult> done);
  // Answers all that waits with the error.
  void End(const absl::Status& error);

 private:
  void Answer(ResultCallback<RunResult> done, absl::StatusOr<RunResult> result);

  Fabric* const fabric_;
  absl::flat_hash_map<Handle, std::shared_ptr<ExecuteRun>> runs_;
  std::vector<std::weak_ptr<ExecuteRun>> awaited_;  // runs with a waiter; some may be over
  size_t live_at_sweep_ = 0;
  const std::shared_ptr<EffectRuns> effects_ = std::make_shared<EffectRuns>();
};

}  // namespace pw::controller
