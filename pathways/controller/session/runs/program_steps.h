// ProgramSteps: runs the programs of a session that have waiting nodes: calls of functions in the client's process, choices between
// branches, loops, Python functions on hosts, and routes (program/cut.h). SessionPrograms owns it. It uses GraphPrograms for the parts of a program, the
// session's waiting reads and lanes for nodes that call functions of the client, SessionFunctions for those on hosts, and RouteRuns for routes.
//
// A run begins all its steps at once. Its parts are sent to their hosts like any program. The outputs of a waiting node are
// *expected* arrays on their hosts (worker/execute/expectations.h). So the nodes that read them can be sent too; the scheduler
// grants none of these nodes before the arrays exist. The hosts send up the values that a waiting node needs. Then the function
// is called or the branch is sent, and its results fulfil the expected arrays. So only the steps that depend on such values are
// dispatched one after another. A function on hosts needs no value here: it is sent at once, as one command to each of its hosts, which
// wait there for its inputs. The scheduler grants no node that reads its outputs before it has ended. The same holds for a route. A loop is
// sent at once, too: its hosts decide about its turns (LoopRuns). So is a choice whose branches hosts can run by themselves (ChoiceRuns); the
// others are decided here.
//
// The functions on hosts of a run are calls of the client's thread (ExecuteRequest::stream): hosts run them in the order of the program,
// and those of different runs in the order of the runs. Those of a branch have an order of their own, for an earlier call may wait for the branch.
//
// With sequential dispatch, steps are taken one after another, and the nodes of a part like those of
// any program (sequential_run.h). Then all results of the run are expected arrays, not just the outputs of waiting nodes.
// Requests that the client sends after the run go on. They may donate the run's arguments, because these get names of their own
// as soon as the hosts know them. From then on no command of a run may wait in the outbox for others, since the first command
// there may wait for the run.
//
// Invariants:
//   WN-1  each expected array is fulfilled exactly once, by the array made for it or with an error
//   WN-2  a run ends in the places of its entry, where it began, even if its slices have been moved meanwhile
//   WN-3  among the gangs that were submitted before the controller chose a branch, the branch's gangs wait only for those that make its
//         arguments. The others may wait for the branch (CU-3)
//   WN-4  a part or branch in flight keeps the whole program alive, and its executables as they were when it began
//   WN-5  in sequential dispatch a run waits for nothing of its session that began after it
//   WN-6  a donated argument belongs to the run alone from the call on, though a computation may take it over much later. Its
//         other handles are deleted, as after any donation
//   WN-7  each step names what it makes from a scope of its own (names/request_names.h), and so does what it begins and what it ends:
//         the order in which values come, and errors, change no name
// Lives on its session's strand. Callbacks in flight hold it weakly, by the session's `alive`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/executables/session_functions.h"
#include "pathways/controller/session/runs/choice_runs.h"
#include "pathways/controller/session/runs/graph_programs.h"
#include "pathways/controller/session/runs/loop_runs.h"
#include "pathways/controller/session/runs/route_runs.h"
#include "pathways/controller/session/runs/step_arrays.h"

namespace pw::controller {

class ProgramSteps {
 public:
  using Record = SessionContext::Record;

  // All must outlive this.
  ProgramSteps(SessionContext* context, PendingReads* reads, SessionLanes* lanes, SessionFunctions* functions,
               GraphPrograms* graphs)
      : context_(context),
        fabric_(context->fabric()),
        reads_(reads),
        lanes_(lanes),
        functions_(functions),
        graphs_(graphs),
        routes_(context),
        arrays_(context, lanes),
        loops_(context),
        choices_(context) {}

  void SetHostCalls(std::shared_ptr<HostCallHandler> handler) { host_calls_ = std::move(handler); }

  // Replaces the donated arguments of a call by arrays that belong to the run (WN-6).
  void TakeOver(const ProgramEntry& entry, std::vector<Record>& args) const;
  // Gives pending outputs of loops and choices on these devices the error.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
    loops_.OnDevicesLost(lost, error);
    choices_.OnDevicesLost(lost, error);
  }
  // `names`: as many as the entry needs. `stream`: of its functions on hosts.
  void Start(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, const std::vector<Record>& args,
             const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run, uint64_t stream);

 private:
  using Expected = StepArrays::Expected;
  struct StepsRun;
  using StepsRef = std::shared_ptr<StepsRun>;
  struct Turns;
  struct HostCallRun;
  struct SelectRun;

  void StartStep(const StepsRef& steps, const program::Step& step);
  void StartPart(const StepsRef& steps, const program::Step& step);
  void StartFunction(const StepsRef& steps, const program::Step& step);
  void StartRoute(const StepsRef& steps, const program::Step& step);
  template <class Call>
  void FillCall(const StepsRef& steps, const program::Step& step, NameScope& names, Call* call);
  std::function<void(const absl::Status&)> EndOf(const StepsRef& steps);
  void StartHostCall(const StepsRef& steps, const program::Step& step);
  void CallByLane(session::LaneListener& client, const std::shared_ptr<HostCallRun>& call, const program::Step& step);
  void EndCallByLane(HostCallRun& call, const absl::StatusOr<std::vector<session::LaneResult>>& results);
  void CallHost(const std::shared_ptr<HostCallRun>& call);
  void EndHostCall(HostCallRun& call, const absl::StatusOr<std::vector<Bytes>>& results);
  // Fulfils the call's outputs with the arrays that `put` makes of its results, or with the returned error. `size`: of a result.
  template <class Result, class Size, class Put>
  absl::Status FulfilResults(HostCallRun& call, const absl::StatusOr<std::vector<Result>>& results, Size size, Put put);
  // Returns the state of a new run, with a scope for each step.
  static StepsRef NewRun(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, std::vector<Record> results,
                         const std::shared_ptr<ExecuteRun>& run, uint64_t stream);
  static NameScope& NamesOf(StepsRun& steps, const program::Step& step);
  static absl::Status CheckResults(const HostCallRun& call, absl::Span<const uint64_t> bytes);
  static uint64_t StreamOfBranch(NameScope& names);
  void StartLoop(const StepsRef& steps, const program::Step& step);
  void StartChoice(const StepsRef& steps, const program::Step& step, const HostChoice& choice, NameScope names);
  void StartSelect(const StepsRef& steps, const program::Step& step);
  void EndSelect(const std::shared_ptr<SelectRun>& select, const absl::StatusOr<Bytes>& index);
  void EndWaiting(const StepsRef& steps, const absl::Status& status);
  void EndRun(const std::shared_ptr<ExecuteRun>& run, const absl::Status& status);
  absl::Status CheckHosts(const ProgramEntry& entry) const;

  // Sequential dispatch.
  void StartInTurn(StepsRef steps, std::vector<Record> args);
  void StartBranchInTurn(const std::shared_ptr<const ProgramEntry>& branch, const std::shared_ptr<SelectRun>& select);
  void TakeSteps(StepsRef steps);
  void Advance(StepsRef steps);
  void EndStep(const StepsRef& steps);
  void SendPartInTurn(const StepsRef& steps, NameScope names, const std::shared_ptr<const ProgramEntry>& part,
                      const std::vector<Record>& args, std::vector<Record> results);

  // Takes the run's arguments. With `all_named_anew`, all that are not donated get names of their own.
  void TakeArgs(StepsRun& steps, const std::vector<Record>& args, bool all_named_anew);

  SessionContext* const context_;
  Fabric* const fabric_;
  PendingReads* const reads_;
  SessionLanes* const lanes_;
  SessionFunctions* const functions_;
  GraphPrograms* const graphs_;
  RouteRuns routes_;
  StepArrays arrays_;
  LoopRuns loops_;
  ChoiceRuns choices_;
  std::shared_ptr<HostCallHandler> host_calls_;
};

}  // namespace pw::controller
