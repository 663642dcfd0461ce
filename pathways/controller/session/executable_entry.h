// A session's records of its executables, and of the runs whose results or ends the client may ask for. Strand-confined.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/program/executable.h"

namespace pw::controller {

// The source of an executable on virtual devices, and the physical devices that they were bound to at the time.
struct CompileSource {
  std::shared_ptr<const CompileRequest> request;
  std::vector<DeviceId> physical;
};

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that passed the check
  absl::Status gone;                                                // not OK after its slice was released: it cannot run any more
  std::shared_ptr<const CompileRequest> source;                     // set if it is on virtual devices: to compile it again
  bool calls_back = false;                                          // it has host callbacks
};

struct ExecuteRun;
// A session's runs of programs with effects, and its client's requests to await them, in order: each run is answered after those before it.
// A request gets the first failure that no earlier request has got.
struct RunOrder {
  std::deque<std::shared_ptr<ExecuteRun>> runs;
  absl::Status untold;
  static void Add(const std::shared_ptr<RunOrder>& order, const std::shared_ptr<ExecuteRun>& run, Fabric& fabric);
};

struct ExecuteRun {
  int missing = 0;  // hosts that have not reported, plus nodes that wait for values and have not ended
  absl::Status status;
  RunResult result;
  ResultCallback<RunResult> waiter;  // callback of FetchExecuteResult, once the client has called it
  buffers::LogicalArray::Ref effects;  // its results' ArrayEntry::effects; null: nothing waits for that
  bool effects_are_nodes = false;      // only nodes that wait for values have callbacks; else `effects` settles with missing == 0
  std::shared_ptr<RunOrder> order;   // null: the run is in no order, or has left it
  bool ended() const { return missing == 0 && order == nullptr; }
  // Counts a node that waits for values.
  void BeginNode() {
    ++missing;
    if (effects_are_nodes) effects->Expect(1);
  }
  void EndEffect() {
    if (effects_are_nodes) effects->OnDone(absl::OkStatus());
  }
  // Answers the waiter, if there is one, when it is this run's turn; then the runs that waited for this one alone. REQUIRES: missing == 0.
  void AnswerWaiter(Fabric& fabric);

 private:
  void AnswerInOrder(Fabric& fabric);
};

}  // namespace pw::controller
