// Cut: a program with waiting nodes, divided into steps. Waiting nodes are HostCalls (calls of the client's Python functions), Selects
// (one of several branches runs), Whiles (loops), HostComputes (Python functions on hosts) and Routes (rows go where values say). HostCalls, and Selects that
// the controller decides, cannot be dispatched before the values of their inputs are known. The others can. Most take a time that nobody predicts,
// while the devices should do other work: the nodes after them are granted when they have ended. A step is a waiting node or a *part*: a program without waiting nodes, which is dispatched as a whole like any
// other. The controller runs the steps (controller/session/runs/program_steps.h).
//
// A part holds the nodes that depend on the same waiting nodes, and on which the same waiting nodes depend, so that no node waits
// longer than it must. For example, the nodes that feed a Select's index form one part, those independent of the Select another, and
// those that use its outputs a third. Between steps, values are arrays: arguments and results of the parts.
//
// Pure.
//
// Invariants:
//   CU-1  the steps stand in an order in which they could run one after another
//   CU-2  every Compute, Transfer and Result of the program is in exactly one part; all results of the program are results of
//         parts
//   CU-3  a part donates an argument only if no other step takes the value. In a branch it donates none: a donating part waits
//         for earlier users of the same devices (controller/scheduling/gangs.h), and these may wait for the branch
//   CU-4  cutting takes time linear in the program's nodes and inputs, and the parts fit into CutRoom
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/program/program.h"

namespace pw::program {

struct Step {
  int part = -1;             // index in Cut::parts; -1: the step is the waiting node `node`
  int node = -1;             // index in the program's nodes
  std::vector<int> inputs;   // values of the program: a part's Args, in order, or the node's inputs (of a Select the index first)
  std::vector<int> outputs;  // values that other steps take: a part's first Results, or all outputs of a node
  std::vector<int> results;  // indices of the program's results: a part's further Results
};

struct Part {
  Program program;               // Node::number is the node's number in the whole program
  std::vector<int> executables;  // maps the part's executables to those of the whole program
};

struct Cut {
  std::vector<Part> parts;
  std::vector<Step> steps;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> specs;  // of each value
};

// The limits on all parts of a program and its branches together. Each part has its own arguments, devices and name, and is lowered
// by itself. Without limits, a program of some megabytes could have gigabytes of parts, and keep the controller busy for minutes.
// Ordinary programs have two or three parts per waiting node, of a few kilobytes each.
struct CutRoom {
  int parts = 8 * kMaxWaiting;
  int64_t bytes = int64_t{256} << 20;  // a program of kMaxNodes nodes in one part takes a third of it
};

// Cuts a program. `executables`: the program's, compiled. `is_branch`: the program is a branch of a Select (CU-3). Subtracts the parts
// from `room`; RESOURCE_EXHAUSTED if they do not fit. INVALID_ARGUMENT: a node does not fit its executable or inputs. Errors name the node.
absl::StatusOr<Cut> CutProgram(const Program& program, absl::Span<const ExecutablePtr> executables, bool is_branch,
                               CutRoom& room);

// Returns whether the program has waiting nodes.
bool WaitsForValues(const Program& program);

}  // namespace pw::program
