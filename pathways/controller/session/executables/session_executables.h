// SessionExecutables: compiles, describes and drops the executables of a session. Hosts compile in the background; their answers
// complete the record, which is then in the table (ExecutableTable). A Python function is an executable too: its own class loads it
// (SessionFunctions), which knows the table, and not this class.
//
// If a device moves or gets another host while its program is compiled, the program is compiled again. If its devices are lost,
// other hosts compile it as stand-ins, so that the client gets its description; it cannot run until hosts have taken the seats
// (SeatLoader).
// Strand-confined.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_functions.h"

namespace pw::controller {

class SessionExecutables {
 public:
  using Info = std::shared_ptr<const ExecutableInfo>;
  using Twins = std::map<Handle, Handle>;  // an executable, and the one that was compiled to replace it

  // All pointers must outlive this.
  SessionExecutables(SessionContext* context, SessionLanes* lanes, ExecutableTable* table, SessionFunctions* functions,
                     const session::NewSession& about)
      : context_(context),
        fabric_(context->fabric()),
        lanes_(lanes),
        table_(table),
        functions_(functions),
        user_(about.is_operator ? "" : about.user) {}

  // These are the methods of Session, for executables of one node.
  void Compile(CompileRequest request, ResultCallback<Info> done);
  void GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done);
  void GetProgramText(Handle executable, ResultCallback<std::string> done);
  void GetProgramModule(Handle executable, ResultCallback<std::string> done);
  absl::Status Destruct(Handle executable);

  // Replaces executables by their twins, under the old handles. Returns the owner of the old ones: they are dropped when the last
  // program that uses them is gone.
  std::shared_ptr<void> Replace(const Twins& twins);

 private:
  struct PendingCompile;  // a compilation on several hosts

  absl::StatusOr<program::Executable> CheckCompile(CompileRequest& request) const;
  void NameHosts(const program::Executable& record, ::pathways::v1::Compile& compile) const;
  void OnCompiled(PendingCompile& compile);
  void Describe(Handle executable, ::pathways::v1::Describe::What what, ResultCallback<::pathways::v1::Described> done);

  SessionContext* const context_;
  Fabric* const fabric_;
  SessionLanes* const lanes_;
  ExecutableTable* const table_;
  SessionFunctions* const functions_;
  const std::string user_;  // with whose other sessions it shares a turn to compile; empty: with none
};

}  // namespace pw::controller
