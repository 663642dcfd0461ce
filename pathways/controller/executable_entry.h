// What a session keeps of an executable, and of an Execute whose result the client will ask for. Strand-confined.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/controller/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/program/executable.h"

namespace pw::controller {

// Of an executable on virtual devices: from what it is compiled, and where those were then.
struct CompileSource {
  std::shared_ptr<const CompileRequest> request;
  std::vector<DeviceId> physical;
};

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that was found to fit
  absl::Status gone;                                                // why it cannot run any more: its slice was released
  std::shared_ptr<const CompileRequest> source;                     // if it is on virtual devices: to compile it again
  bool calls_back = false;                                          // it has host callbacks
};

struct ExecuteRun;
// A session's runs of programs with effects, and its client's questions for their ends, in order: each is answered after those
// before it. Who asks is told the first failure that nobody has been told.
struct RunOrder {
  std::deque<std::shared_ptr<ExecuteRun>> runs;
  absl::Status untold;
  static void Add(const std::shared_ptr<RunOrder>& order, const std::shared_ptr<ExecuteRun>& run, Fabric& fabric);
};

struct ExecuteRun {
  int missing = 0;  // hosts that have not reported, and nodes of a program that wait for values
  absl::Status status;
  RunResult result;
  ResultCallback<RunResult> waiter;  // FetchExecuteResult, once it has come
  buffers::LogicalArray::Ref effects;  // of its results (ArrayEntry); null: nobody waits for that
  bool effects_are_nodes = false;      // only nodes that wait for values call back; else `effects` is ready with missing == 0
  std::shared_ptr<RunOrder> order;   // null: it is answered by itself, or it has been its turn
  bool ended() const { return missing == 0 && order == nullptr; }
  // One that waits for values.
  void BeginNode() {
    ++missing;
    if (effects_are_nodes) effects->Expect(1);
  }
  void EndEffect() {
    if (effects_are_nodes) effects->OnDone(absl::OkStatus());
  }
  // REQUIRES: missing == 0. Answers it when it is its turn, and then those that wait for it alone.
  void AnswerWaiter(Fabric& fabric);

 private:
  void AnswerInOrder(Fabric& fabric);
};

}  // namespace pw::controller
