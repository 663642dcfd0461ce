// What a session keeps of an executable, and of an Execute whose result the client will ask for. Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/controller/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/program/executable.h"

namespace pw::controller {

struct ExecutableEntry {
  std::shared_ptr<const program::Executable> record;
  std::shared_ptr<const ExecutableInfo> info;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> accepted;  // for each parameter the last spec that was found to fit
  absl::Status gone;                                                // why it cannot run any more: its slice was released
  std::shared_ptr<const CompileRequest> source;                     // if it is on virtual devices: to compile it again
};

struct ExecuteRun {
  int missing = 0;  // hosts that have not reported, and nodes of a program that wait for values
  absl::Status status;
  RunResult result;
  ResultCallback<RunResult> waiter;  // FetchExecuteResult, once it has come
  void AnswerWaiter(Fabric& fabric);
};

}  // namespace pw::controller
