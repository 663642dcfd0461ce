// JitCalls: calls of executables of one node: the hot path. One command goes to each host, and each result gets one record. Once an
// argument's spec has been checked, no cost depends on the number of shards.
//
// Calls of Python functions are checked here, and launched by SessionFunctions.
//
// Invariants:
//   JC-1  a donated argument is deleted, whether or not the call succeeds: the client considers it deleted once it has sent the request
//   JC-2  an argument that is an error makes all results this error, and nothing is launched
// Strand-confined.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_functions.h"

namespace pw::controller {

class JitCalls {
 public:
  // All must outlive this.
  JitCalls(SessionContext* context, ExecutableTable* executables, SessionFunctions* functions)
      : context_(context), fabric_(context->fabric()), executables_(executables), functions_(functions) {}

  // Session::Execute of an executable of one node. `run`: gets the outcome; may be null.
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request, const std::shared_ptr<ExecuteRun>& run);

 private:
  struct Call;  // that has passed the checks

  absl::StatusOr<Call> Check(const ExecuteRequest& request);
  absl::Status CheckArgs(ExecutableEntry& executable, Call& call);
  // Returns the error of a call whose hosts do not have the executable.
  absl::Status NotLoaded(const ExecutableEntry& entry) const;
  void Launch(const ExecuteRequest& request, Call& call, const std::shared_ptr<ExecuteRun>& run);
  void ConsumeDonated(const ExecuteRequest& request, const program::Executable& executable, bool launched);

  SessionContext* const context_;
  Fabric* const fabric_;
  ExecutableTable* const executables_;
  SessionFunctions* const functions_;
};

}  // namespace pw::controller
