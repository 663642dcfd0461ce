// SessionPrograms: the programs of many nodes of a session: compiles, describes, calls and drops them. The executables of a program
// are compiled in parallel, like any others (SessionExecutables). Then its hosts load it whole (GraphPrograms), or in parts if it has
// nodes that wait for values (StepsMaker, ProgramSteps). SessionPrograms owns these three. They know neither it nor the client's
// handles.
//
// A run in flight keeps the entry of its program, also after the client has dropped the program, or a move has replaced the entry.
//
// Invariant PM-1: a program's executables are dropped when its handle and all its runs are gone.
// Strand-confined.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_executables.h"
#include "pathways/controller/session/executables/session_functions.h"
#include "pathways/controller/session/runs/graph_programs.h"
#include "pathways/controller/session/runs/program_steps.h"
#include "pathways/controller/session/runs/steps_maker.h"

namespace pw::controller {

class SessionPrograms {
 public:
  using Info = std::shared_ptr<const ExecutableInfo>;

  // All must outlive this.
  SessionPrograms(SessionContext* context, PendingReads* reads, SessionLanes* lanes, ExecutableTable* executable_table,
                  SessionFunctions* functions, SessionExecutables* executables, RunResults* run_results);

  // Session::CompileProgram.
  void Compile(program::Program program, ResultCallback<Info> done);
  bool Has(Handle program) const { return !programs_.empty() && programs_.contains(program); }
  // These are methods of Session. REQUIRE: Has.
  Info InfoOf(Handle program) const { return programs_.at(program)->info; }
  void Destruct(Handle program);
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request, std::shared_ptr<ExecuteRun> run);

  // Sets the handler of calls from programs into the client's process; null: such calls fail.
  void SetHostCalls(std::shared_ptr<HostCallHandler> handler) { steps_.SetHostCalls(std::move(handler)); }
  // Gives pending results on these devices the error.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
    graphs_.OnDevicesLost(lost, error);
    steps_.OnDevicesLost(lost, error);
  }
  // Makes all programs that use these devices fail from now on.
  void OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error);
  // Makes the concerned programs anew, for new places of their devices and the executables that are in the table now. A program for
  // which this fails cannot run any more. `old_executables` owns those that were replaced: runs in flight keep them.
  void MakeAnew(absl::FunctionRef<bool(const ProgramEntry&)> concerned, const std::shared_ptr<void>& old_executables);

  size_t size() const { return programs_.size(); }
  // Calls `each` with every program, by its handle, in no order.
  void ForEach(absl::FunctionRef<void(Handle, const ProgramEntry&)> each) const {
    for (const auto& [handle, entry] : programs_) each(handle, *entry);
  }
  size_t num_runs() const { return graphs_.num_runs(); }

 private:
  using Record = SessionContext::Record;
  using EntryRef = std::shared_ptr<ProgramEntry>;
  using Executables = std::vector<program::ExecutablePtr>;
  struct Compilation;  // of a program's executables

  void OnCompiled(Compilation& compile, int executable, const absl::StatusOr<Info>& info);
  void FinishCompile(Compilation& compile);
  absl::StatusOr<Info> Add(Compilation& compile);
  absl::StatusOr<EntryRef> MakeEntry(program::Program program, Executables executables);
  absl::Status MakeOneAnew(Handle handle, const std::shared_ptr<void>& old_executables);
  void DropExecutables(const std::vector<Handle>& executables);
  absl::Status CheckCall(ProgramEntry& entry, const ExecuteRequest& request, const std::vector<Handle>& results,
                         std::vector<ArrayEntry>* args);
  absl::Status CheckArgs(ProgramEntry& entry, absl::Span<const Handle> handles, std::vector<ArrayEntry>* args);
  Record PoisonedArgument(ArrayId id, const ProgramEntry::Argument& argument, const absl::Status& error);
  void Start(const EntryRef& entry, const std::vector<ArrayEntry>& args, absl::Span<const Handle> results,
             const std::shared_ptr<ExecuteRun>& run, uint64_t stream);

  SessionContext* const context_;
  Fabric* const fabric_;
  ExecutableTable* const executable_table_;
  SessionExecutables* const executables_;
  RunResults* const run_results_;
  GraphPrograms graphs_;
  StepsMaker steps_maker_;
  ProgramSteps steps_;
  absl::flat_hash_map<Handle, EntryRef> programs_;
};

}  // namespace pw::controller
