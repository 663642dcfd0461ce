// GraphPrograms: programs of many nodes that hosts load whole: those without nodes that wait for values, and the parts of the others
// (ProgramSteps). The IR lowers such a program to a dataflow graph, which is installed once on its hosts. A run of this graph is one
// message to each host; the controller keeps no intermediate values. With sequential dispatch, the controller sends the nodes of each
// run one by one instead (sequential_run.h).
//
// SessionPrograms owns it, and keeps the entries. Callbacks of runs hold the session's `alive`. Strand-confined.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class GraphPrograms {
 public:
  using Record = SessionContext::Record;
  using EntryRef = std::shared_ptr<ProgramEntry>;
  using Executables = std::vector<program::ExecutablePtr>;

  // `context` must outlive this.
  explicit GraphPrograms(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  // Returns OK if the session may use the devices of the program's arguments and transfers. `devices`: gets all that it uses, ascending.
  absl::Status Check(const program::Program& program, std::vector<DeviceId>* devices) const;
  // Returns the program's entry. Loads it on its hosts.
  absl::StatusOr<EntryRef> Make(program::Program program, Executables executables);
  // Returns the entry of the same program for the current mapping of its devices, with executables that were compiled for it.
  absl::StatusOr<EntryRef> MakeAnew(const ProgramEntry& old, Executables executables);
  // Makes the hosts drop the program.
  void Unload(const ProgramEntry& entry);
  // Returns OK if the program is on all its hosts.
  absl::Status CheckLoaded(const ProgramEntry& entry) const;

  // Starts a run. `names`: as many as the entry needs. `run`: gets the outcome; may be null.
  void Start(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, std::vector<Record> args,
             std::vector<Record> results, const std::shared_ptr<ExecuteRun>& run);
  // Starts a run in parallel dispatch: every host gets its message, all at once.
  void SendRun(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, const std::vector<Record>& args,
               const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run);
  // Gives pending results on these devices the error, with the node that would have made them.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);
  size_t num_runs() const { return runs_.size(); }

 private:
  struct Stage {
    Gangs::Ticket ticket;
    OpId op;  // completes its gang; not set if it is the only one
  };
  using Stages = std::vector<Stage>;

  absl::Status Lower(ProgramEntry& entry, program::Program program, Executables executables);
  absl::Status Load(ProgramEntry& entry);
  Stages SubmitStages(const ProgramEntry& entry, NameScope& names, const std::vector<Record>& args,
                      const std::vector<Record>& results);
  void AddStages(const ProgramEntry& entry, size_t host, const Stages& submitted, ::pathways::v1::ProgramRun* message);

  SessionContext* const context_;
  Fabric* const fabric_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<ProgramRun>> runs_;  // by the base of their names
};

}  // namespace pw::controller
