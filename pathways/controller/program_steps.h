// ProgramSteps: a session's programs with nodes that wait for values: functions of the client's process, and choices
// (program/cut.h).
//
// A run begins all its steps at once. Parts are sent to their hosts as any program is. What a node makes that waits for values is
// *expected* there (worker/expectations.h): whatever takes it can be sent too, and the scheduler grants none of that before it is
// there. The values come up from the hosts when they exist; then the function is called, or the branch sent, and what comes of it
// put where it is expected. So the controller dispatches one after another only what it must.
//
// With sequential dispatch the steps are taken one after the other (program_steps_in_turn.cc), the nodes of a part as those of any
// program (sequential_run.h). Not only what a node makes is expected, but all results of the run: so what the client sends behind it
// goes on, and may give the run's arguments away, which have names of our own once they are known on the hosts. From then on no command of a
// run waits in the outbox for others: what stands there first may wait for the run.
//
// Invariants:
//   PS-1  each expected array is fulfilled once, whatever fails: by what is made for it, or with the error
//   PS-2  a run ends where it began: in the places that its entry has, also when its slices have been moved meanwhile
//   PS-3  no gang of a branch waits for gangs that were submitted before the branch was chosen, but for those that make its
//         arguments: these may wait for the branch (CU-3)
//   PS-4  what is under way of a part or a branch keeps the whole program, and with it the executables, as they were when it
//         began
//   PS-5  in sequential dispatch a run waits for nothing of its session that began after it
//   PS-6  a donated argument is the run's alone from the call on, though it may be taken over much later: its other handles are
//         deleted, as everybody's who donates
// Part of its session: lives on the same strand, and what is under way holds it weakly, by the session's `alive_`.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/controller/session_impl.h"

namespace pw::controller {

class ProgramSteps {
 public:
  using Record = SessionImpl::Record;
  using SpecPtr = SessionImpl::SpecPtr;
  using EntryRef = std::shared_ptr<ProgramEntry>;
  using Executables = std::vector<program::ExecutablePtr>;

  explicit ProgramSteps(SessionImpl* session) : session_(session) {}

  void SetHostCalls(std::shared_ptr<HostCallHandler> handler) { host_calls_ = std::move(handler); }

  // Its parts are loaded on their hosts. `branches`: all that its nodes may name.
  absl::StatusOr<EntryRef> Make(program::Program program, const Executables& executables, std::vector<EntryRef> branches,
                                bool is_branch, program::CutRoom& room);
  // What a client's call gives away, as the run has it (PS-6). `args`: of the call.
  void TakeOver(const ProgramEntry& entry, std::vector<Record>& args) const;
  void Start(const std::shared_ptr<const ProgramEntry>& entry, const std::vector<Record>& args,
             const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run);

 private:
  struct StepsRun;
  using StepsRef = std::shared_ptr<StepsRun>;
  struct Turns;
  struct Expected;
  struct HostCallRun;
  struct SelectRun;

  // -- program_steps_make.cc
  absl::Status MakeParts(ProgramEntry::Steps& steps, const Executables& executables);
  absl::Status FindPlaces(const program::Program& program, ProgramEntry::Steps& steps, std::vector<DeviceId>* devices) const;
  absl::Status CheckWaiting(const program::Node& node, const ProgramEntry::Steps& steps) const;
  absl::Status CheckBranch(const program::Node& node, const ProgramEntry& branch, const ProgramEntry::Steps& steps) const;

  // -- program_steps.cc
  void StartStep(const StepsRef& steps, const program::Step& step);
  void StartPart(const StepsRef& steps, const program::Step& step);
  void StartHostCall(const StepsRef& steps, const program::Step& step);
  void CallHost(const std::shared_ptr<HostCallRun>& call);
  void EndHostCall(const HostCallRun& call, absl::StatusOr<std::vector<Bytes>> results);
  void StartSelect(const StepsRef& steps, const program::Step& step);
  void EndSelect(const std::shared_ptr<SelectRun>& select, const absl::StatusOr<Bytes>& index);
  void EndWaiting(const StepsRef& steps, const absl::Status& status);
  void EndRun(const std::shared_ptr<ExecuteRun>& run, const absl::Status& status);
  absl::Status CheckHosts(const ProgramEntry& entry) const;

  // -- program_steps_in_turn.cc
  void StartInTurn(StepsRef steps, std::vector<Record> args);
  void StartBranchInTurn(const std::shared_ptr<const ProgramEntry>& branch, const std::shared_ptr<SelectRun>& select);
  void TakeSteps(StepsRef steps);
  void Advance(StepsRef steps);
  void EndStep(const StepsRef& steps);
  void SendPartInTurn(const StepsRef& steps, const std::shared_ptr<const ProgramEntry>& part, const std::vector<Record>& args,
                      std::vector<Record> results);

  // -- program_steps.cc: arrays of steps. `value`: of the entry's program, for what it is and where.
  HostGroup* GroupOf(const ProgramEntry& entry, int value) const;
  Record NewRecord(const ProgramEntry& entry, int value);
  Record ResultOf(const ProgramEntry& entry, size_t result);
  Record AliasOf(const ProgramEntry& entry, int value, absl::Span<const Record> sources);
  void TakeArgs(StepsRun& steps, const std::vector<Record>& args, bool all_named_anew);
  Expected Expect(const ProgramEntry& entry, int value, Record record);
  absl::Status WhyGone(const Record& array) const;
  void Announce(const Expected& expected);
  void Fulfil(const Expected& expected, const absl::StatusOr<Record>& source);
  // REQUIRES: it has settled.
  void FulfilWith(const Expected& expected, const Record& source);
  Record PutBytes(const Expected& expected, const Bytes& data);
  void FetchValue(const ProgramEntry& entry, int value, const Record& array, ResultCallback<Bytes> done);

  // Its arrays have names of their own, or the run's turn has come (PS-5).
  void Send(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload = {}) const {
    fabric().outbox().AddNow(host, std::move(command), std::move(payload));
  }
  Fabric& fabric() const { return *session_->fabric_; }
  std::weak_ptr<bool> alive() const { return session_->alive_; }

  SessionImpl* const session_;
  std::shared_ptr<HostCallHandler> host_calls_;
};

}  // namespace pw::controller
