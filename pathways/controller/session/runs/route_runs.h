// RouteRuns: starts the runs of routes, which are nodes of programs (proto/pathways/v1/route.proto). ProgramSteps owns it.
//
// A route is a graph of the coordination dataflow (dispatch/plan_route.h). A run of it is one message to each of its hosts, and one answer from each.
// It is no gang and takes no turn on the devices: computations that read its results are granted when it has ended.
// Strand-confined.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class RouteRuns {
 public:
  using Record = SessionContext::Record;

  // `context` must outlive this.
  explicit RouteRuns(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  struct Call {
    const InstalledRoute& route;
    std::string location;  // of the node
    std::vector<Record> args;
    std::vector<Record> results;                    // new, with one completion outstanding, which the caller gives
    std::function<void(const absl::Status&)> done;  // called when all hosts have ended it
  };
  // `names`: has an op.
  void Launch(NameScope& names, const Call& call);

 private:
  SessionContext* const context_;
  Fabric* const fabric_;
};

}  // namespace pw::controller
