// What a session keeps of a program of many nodes: the record that its handle means, and those of its runs that are under way.
// Strand-confined.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pathways/controller/ops_in_flight.h"
#include "pathways/controller/program_stages.h"
#include "pathways/controller/session.h"
#include "pathways/dispatch/lower_program.h"
#include "pathways/gang/options.h"
#include "pathways/program/cut.h"
#include "pathways/program/program.h"

namespace pw::controller {

struct ProgramEntry {
  ProgramEntry() = default;
  ProgramEntry(const ProgramEntry&) = delete;
  ~ProgramEntry() {
    if (on_gone) on_gone();
  }

  uint64_t id = 0;  // as hosts know it
  std::shared_ptr<const program::TypedProgram> typed;
  std::string portable;                   // its IR, which holds whatever the mapping is (ir/compile.h)
  std::function<void()> on_gone;          // drops the executables: with the last of handle and runs
  std::vector<Handle> executables;        // of the session, by the program's numbers
  dispatch::LoweredProgram lowered;       // for the mapping as it is
  std::vector<DeviceId> devices;          // all that it uses, ascending
  std::unique_ptr<ProgramStages> stages;  // what its runs are to the scheduler
  std::vector<HostId> hosts;              // of `lowered`
  struct Argument {
    std::shared_ptr<const buffers::ArraySpec> spec;      // what an array must be
    std::shared_ptr<const buffers::ArraySpec> accepted;  // the last one that was found to be so
    int node = 0;
    bool donated = false;
  };
  std::vector<Argument> arguments;  // one for each array of a call
  bool any_donated = false;
  absl::Status gone;  // why it cannot run any more: a slice of it was released
  // Of a program with nodes that wait for values, and of branches: then only the parts are loaded on hosts.
  struct Place {
    HostId host;
    int local_device = 0;
  };
  struct Steps {
    program::Cut cut;
    using Places = std::shared_ptr<const std::vector<Place>>;  // those of a sharding are kept once
    std::vector<Places> places;                                // of each value's shards, for the mapping as it is
    std::vector<HostId> hosts;                                 // of all places, ascending
    std::vector<std::shared_ptr<ProgramEntry>> parts;          // by number
    std::vector<std::shared_ptr<ProgramEntry>> branches;       // by number: all that its nodes may name
  };
  std::unique_ptr<const Steps> steps;
  std::shared_ptr<const ExecutableInfo> info;

  // REQUIRES: typed and lowered.
  void MakeStages(const gang::Options& gangs) {
    constexpr int64_t kShortestNs = 1'000'000;  // a shorter one is not worth its messages
    stages =
        std::make_unique<ProgramStages>(typed.get(), &lowered, std::max(gangs.window_ns / 2, kShortestNs), gangs.default_cost_ns);
  }

  const program::Program& program() const { return typed->program; }
  std::shared_ptr<const buffers::ArraySpec> result_spec(size_t i) const {
    return {typed->result_specs, &(*typed->result_specs)[i]};
  }
};

// What a call of the program takes.
std::vector<ProgramEntry::Argument> MakeArguments(const program::Program& program);
// Whether an array may be used where such a one is wanted.
bool Fits(const buffers::ArraySpec& array, const buffers::ArraySpec& wanted);

// A run whose hosts have not all answered.
struct ProgramRun {
  std::shared_ptr<const ProgramEntry> entry;
  WeakArrays results;
  int left = 0;  // hosts
};

}  // namespace pw::controller
