// The IR for those who do not see MLIR: from a program as it was sent and compiled, to what each host does.
//
// In two halves, so that only the second is done again when the mapping changes (paper 4.2): the portable form holds whatever the mapping is;
// lowering it says where everything is, chooses routes and writes the hosts' steps. The portable form is kept as bytes, some 40 a node,
// rather than as a live module, whose context costs far more.
//
// Pure: no state between calls. Errors are INVALID_ARGUMENT and name the node and the user's line.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"
#include "pathways/resource/topology.h"

namespace pw::ir {

// Checks the types of all nodes against the executables, which are those of the program in its order, and puts transfers where an
// input is wanted elsewhere or cut otherwise.
absl::StatusOr<std::string> ImportProgram(const program::Program& program, absl::Span<const program::ExecutablePtr> executables);

// REQUIRES: `portable` is what ImportProgram made of the program, all devices of the program are there, and the executables, perhaps others
// by now, take and make the same types.
absl::StatusOr<program::HostPrograms> LowerProgram(std::string_view portable, const program::Program& program,
                                                   absl::Span<const program::ExecutablePtr> executables,
                                                   const resource::Topology& topology);

// The portable form as people read it, with locations.
std::string PrintProgram(std::string_view portable);

}  // namespace pw::ir
