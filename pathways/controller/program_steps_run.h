// What is under way of a program with nodes that wait for values. Of ProgramSteps alone, which is in two files
// (program_steps.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "pathways/controller/program_steps.h"

namespace pw::controller {

// An array of which nothing is known but where it will be: pending on its fulfilment.
struct ProgramSteps::Expected {
  Record record;
  std::map<HostId, ::pathways::v1::Command> commands;  // Expect
};

// Of steps that are taken one after the other.
struct ProgramSteps::Turns {
  std::shared_ptr<const Gangs::Barrier> place;  // of the whole run, in the order of the session's work
  std::function<void(const StepsRun&)> done;    // its results are there, or have failed
  std::vector<int> last_taken;                  // by which step, of each value
  size_t next = 0;       // step to begin
  size_t under_way = 0;  // steps that have begun and not ended
  bool advancing = false, again = false;
};

// Held by what it waits for.
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
  size_t left = 0;  // operands that have not come
  absl::Status error;
  std::vector<Expected> outputs;
};

struct ProgramSteps::SelectRun {
  StepsRef steps;
  int node = 0;
  std::vector<Record> inputs;
  std::vector<Expected> outputs;
};

}  // namespace pw::controller
