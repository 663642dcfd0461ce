// HostChoice: a Select whose branch the hosts choose by themselves (worker/execute/choices.h), as prepared when its program is loaded. Each host has
// a script of all branches: the graphs that it runs, and the choices among them.
//
// Hosts choose if all branches have only computations, transfers and choices, at least one computes, and the script is small. Else the controller
// chooses: it alone calls a client's functions, and grants leases to loops and places to what takes a time that nobody predicts.
//
// Slots. All hosts number the arrays of the script alike: first the node's inputs, of which the index is the first, then its outputs, then what each
// step makes, in the order of the script.
//
// Pure, but for `on_gone`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

struct HostChoice {
  HostChoice() = default;
  HostChoice(const HostChoice&) = delete;
  ~HostChoice() {
    if (on_gone) on_gone();
  }

  // The command of each host, except what a run names. The arrays of its inputs and outputs are the numbers of the node's.
  std::map<HostId, ::pathways::v1::BeginChoice> commands;
  std::vector<HostId> executing;  // those of its hosts on which a branch executes, ascending
  std::vector<DeviceId> devices;  // on which a branch executes, physical, ascending
  uint32_t slots = 0;
  bool spans = false;          // it has launches over several hosts
  int computes = 0;            // of all branches
  ExecutableId id;             // the key of its measured cost
  mutable uint32_t calls = 0;  // that were expected to take long
  std::function<void()> on_gone;
};

// Plans the choice of `step`, a Select of `program`, whose branches are loaded. Null: the controller chooses.
std::shared_ptr<HostChoice> PlanChoice(const ProgramEntry::Steps& steps, const program::Program& program,
                                       const program::Step& step, const resource::Topology& topology);

}  // namespace pw::controller
