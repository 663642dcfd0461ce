// StepsMaker: loads programs that have nodes that wait for values, and makes the entries with which ProgramSteps runs them. It cuts a program
// into parts, loads each part on its hosts (GraphPrograms), finds the places of all values, and checks the waiting nodes and their branches.
// Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/runs/graph_programs.h"

namespace pw::controller {

class StepsMaker {
 public:
  using EntryRef = std::shared_ptr<ProgramEntry>;
  using Executables = std::vector<program::ExecutablePtr>;

  // All must outlive this.
  StepsMaker(SessionContext* context, SessionLanes* lanes, GraphPrograms* graphs)
      : context_(context), fabric_(context->fabric()), lanes_(lanes), graphs_(graphs) {}

  // Returns the program's entry. Loads its parts on their hosts. `branches`: all that its nodes may choose.
  absl::StatusOr<EntryRef> Make(program::Program program, const Executables& executables, std::vector<EntryRef> branches,
                                bool is_branch, program::CutRoom& room);
  // Returns the entry of a branch that is a turn of a loop. It has one part, which donates the carry.
  absl::StatusOr<EntryRef> MakeTurn(program::Program program, const Executables& executables, program::CutRoom& room);

 private:
  // Sets the names that each step needs, and returns what a run needs.
  static NameNeed CountNames(const program::Program& program, size_t arguments, ProgramEntry::Steps& steps);
  absl::Status MakeParts(ProgramEntry::Steps& steps, const Executables& executables);
  absl::Status InstallRoutes(const program::Program& program, ProgramEntry::Steps& steps) const;
  absl::Status FindPlaces(const program::Program& program, ProgramEntry::Steps& steps, std::vector<DeviceId>* devices) const;
  void PlanChoices(const program::Program& program, ProgramEntry::Steps& steps) const;
  void OpenLanes(const program::Program& program, const ProgramEntry::Steps& steps) const;
  absl::Status CheckWaiting(const program::Node& node, const ProgramEntry::Steps& steps) const;
  absl::Status CheckLoop(const program::Node& node, const ProgramEntry& turn, const ProgramEntry::Steps& steps) const;
  absl::Status CheckBranch(const program::Node& node, const ProgramEntry& branch, const ProgramEntry::Steps& steps) const;

  SessionContext* const context_;
  Fabric* const fabric_;
  SessionLanes* const lanes_;
  GraphPrograms* const graphs_;
};

}  // namespace pw::controller
