// State of runs of programs with nodes that wait for values. Private to ProgramSteps, whose code is in several files (program_steps.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "pathways/controller/session/runs/program_steps.h"

namespace pw::controller {

// An array of which only the places are known. It is pending until it is fulfilled.
struct ProgramSteps::Expected {
  Record record;
  std::map<HostId, ::pathways::v1::Command> commands;  // the Expect commands
};

// State of a run whose steps are taken one after another.
struct ProgramSteps::Turns {
  std::shared_ptr<const Gangs::Barrier> place;  // of the whole run, in the order of the session's work
  std::function<void(const StepsRun&)> done;    // called when its results exist or have failed
  std::vector<int> last_taken;                  // for each value the last step that takes it
  size_t next = 0;                              // the next step to begin
  size_t under_way = 0;                         // steps in flight
  bool advancing = false, again = false;
};

// State of a run in flight. The callbacks that it waits for hold it.
struct ProgramSteps::StepsRun {
  std::shared_ptr<const ProgramEntry> entry;
  std::vector<Record> values;
  std::vector<Record> results;
  std::shared_ptr<ExecuteRun> run;  // may be null
  std::unique_ptr<Turns> turns;     // null: all steps have begun at once
};

struct ProgramSteps::HostCallRun {
  StepsRef steps;
  int node = 0;
  HostCall call;
  size_t left = 0;  // operands that have not arrived
  absl::Status error;
  std::vector<Handle> operands;  // that the client fetches
  std::vector<Expected> outputs;
};

struct ProgramSteps::SelectRun {
  StepsRef steps;
  int node = 0;
  std::vector<Record> inputs;
  std::vector<Expected> outputs;
};

}  // namespace pw::controller
