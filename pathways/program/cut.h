// Cut: a program with nodes that wait for values, as steps: those nodes, and between them *parts*, programs without such nodes,
// which are dispatched all at once like any other program.
//
// A part holds the nodes that wait for the same values and that the same values wait for, so that nothing waits for more than it
// needs: what feeds an index is a part of its own, what does not depend on the index another, what does a third. Values cross
// between steps as arrays, arguments and results of the parts.
//
// Pure.
//
// Invariants:
//   CU-1  steps stand in an order in which they could run one after another
//   CU-2  every Compute, Transfer and Result of the program is in exactly one part; all results of the program are results of
//         parts
//   CU-3  a part takes an argument over only if no other step takes the value, and nothing at all in a branch: whoever takes over
//         waits for earlier users of the same devices (controller/gangs.h), and these may wait for the branch
//   CU-4  the work is linear in the program's nodes and inputs, and what it makes has room in CutRoom
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
  int part = -1;             // index in Cut::parts; -1: `node` waits for values
  int node = -1;             // of the program
  std::vector<int> inputs;   // values of the program: a part's Args, in order; of a Select the index first
  std::vector<int> outputs;  // values that other steps take: a part's first Results, or all that a node makes
  std::vector<int> results;  // of the program, by number: a part's further Results
};

struct Part {
  Program program;               // nodes keep the numbers that they had
  std::vector<int> executables;  // of the whole program: those of the part, by its own numbers
};

struct Cut {
  std::vector<Part> parts;
  std::vector<Step> steps;
  std::vector<std::shared_ptr<const buffers::ArraySpec>> specs;  // of each value
};

// What the parts of a program and of its branches may take together. Each part has arguments, devices and a name of its own and is
// lowered by itself, so a client could write a program of some megabytes whose parts are gigabytes, and minutes of work for the
// controller. Programs as people write them have two or three parts for each node that waits, and a few kilobytes in each.
struct CutRoom {
  int parts = 8 * kMaxWaiting;
  int64_t bytes = int64_t{256} << 20;  // a program of kMaxNodes nodes in one part takes a third of it
};

// `executables` are what the program's compiled to. Errors name the node. What the parts take is taken out of `room`;
// RESOURCE_EXHAUSTED if it is not enough.
absl::StatusOr<Cut> CutProgram(const Program& program, absl::Span<const ExecutablePtr> executables, bool is_branch,
                               CutRoom& room);

// Whether the program has nodes that wait for values.
bool WaitsForValues(const Program& program);

}  // namespace pw::program
