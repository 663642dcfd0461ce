// A session's record of a program of many nodes, and of its runs in flight. Strand-confined.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pathways/controller/hosts/ops_in_flight.h"
#include "pathways/controller/names/request_names.h"
#include "pathways/controller/scheduling/lease_length.h"
#include "pathways/controller/scheduling/program_stages.h"
#include "pathways/controller/session.h"
#include "pathways/dispatch/lower_program.h"
#include "pathways/dispatch/plan_route.h"
#include "pathways/gang/options.h"
#include "pathways/program/cut.h"
#include "pathways/program/program.h"

namespace pw::controller {

// A Route node's graph on its hosts. Whoever drops it last removes it from them.
struct InstalledRoute {
  InstalledRoute() = default;
  InstalledRoute(const InstalledRoute&) = delete;
  ~InstalledRoute() {
    if (on_gone) on_gone();
  }

  dispatch::RoutePlan plan;
  dataflow::GraphId graph;
  std::function<void()> on_gone;
};

struct HostChoice;  // session/runs/choice_plan.h

struct ProgramEntry {
  ProgramEntry() = default;
  ProgramEntry(const ProgramEntry&) = delete;
  ~ProgramEntry() {
    if (on_gone) on_gone();
  }

  uint64_t id = 0;                         // for its fingerprint
  std::optional<dataflow::GraphId> graph;  // installed on its hosts; none for programs with steps, and in sequential dispatch
  std::shared_ptr<const program::TypedProgram> typed;
  std::string portable;                   // its IR, which does not depend on the mapping (ir/compile.h)
  std::function<void()> on_gone;          // runs when the handle and all runs are gone: drops the executables
  std::vector<Handle> executables;        // the session's handles, by the program's executable numbers
  dispatch::LoweredProgram lowered;       // for the current mapping of virtual devices
  std::vector<DeviceId> devices;          // all that the program uses, ascending
  NameNeed need;                          // of a run, apart from its results
  std::unique_ptr<ProgramStages> stages;  // the gangs of each run
  std::unique_ptr<LeaseLength> leases;    // only of a turn of a loop: the loop's gangs
  struct Argument {
    std::shared_ptr<const buffers::ArraySpec> spec;      // the required spec
    std::shared_ptr<const buffers::ArraySpec> accepted;  // the last spec that passed the check
    int node = 0;
    bool donated = false;
  };
  std::vector<Argument> arguments;  // one for each argument of a call
  bool any_donated = false;
  absl::Status gone;  // not OK: it cannot run any more, for example because a slice that it uses was released
  // Only for programs with nodes that wait for values, and for branches: hosts load only their parts.
  struct Place {
    HostId host;
    int local_device = 0;
  };
  struct Steps {
    program::Cut cut;
    using Places = std::shared_ptr<const std::vector<Place>>;  // shared by values with the same list of devices
    std::vector<Places> places;                                // for each value the places of its shards, for the current mapping
    std::vector<HostId> hosts;                                 // the hosts of all places, ascending
    std::vector<NameNeed> needs;                               // of each step
    std::vector<std::shared_ptr<const InstalledRoute>> routes;  // of each step; null: it is no route
    std::vector<std::shared_ptr<const HostChoice>> choices;  // of each step; null: it is no choice, or the controller decides it
    std::vector<std::shared_ptr<ProgramEntry>> parts;        // by number
    std::vector<std::shared_ptr<ProgramEntry>> branches;     // by number: all branches that its nodes may choose

    // Returns a need with room for a run of any of these branches.
    NameNeed LargestOf(const std::vector<int>& which) const {
      NameNeed need;
      for (int branch : which) need = Larger(need, branches[branch]->need);
      return need;
    }
  };
  std::unique_ptr<const Steps> steps;
  std::shared_ptr<const ExecutableInfo> info;

  // The limit of the expected time of a gang that is a part of a run.
  static int64_t MostNs(const gang::Options& gangs) {
    constexpr int64_t kShortestNs = 1'000'000;  // a shorter one is not worth its messages
    return std::max(gangs.window_ns / 2, kShortestNs);
  }
  // REQUIRES: typed and lowered.
  void MakeStages(const gang::Options& gangs) {
    stages = std::make_unique<ProgramStages>(typed.get(), &lowered, MostNs(gangs), gangs.default_cost_ns);
  }

  const program::Program& program() const { return typed->program; }
  std::shared_ptr<const buffers::ArraySpec> result_spec(size_t i) const {
    return {typed->result_specs, &(*typed->result_specs)[i]};
  }
};

// Describes an argument or a result to clients.
ValueInfo ToInfo(const buffers::ArraySpec& spec);
// Returns the arguments that a call of the program takes.
std::vector<ProgramEntry::Argument> MakeArguments(const program::Program& program);
// Returns whether `array` can be used where `wanted` is required.
bool Fits(const buffers::ArraySpec& array, const buffers::ArraySpec& wanted);

// A run whose hosts have not all answered.
struct ProgramRun {
  std::shared_ptr<const ProgramEntry> entry;
  WeakArrays results;
  int left = 0;  // hosts that have not answered
};

}  // namespace pw::controller
