// The interface of the IR for code that does not see MLIR: lowers a program, as sent by the client and compiled, to the hosts' steps.
//
// The work has two halves, and only the second is repeated when the mapping changes (paper 4.2). ImportProgram makes the portable form,
// which is valid for every mapping. LowerProgram places it on devices, chooses routes and writes the hosts' steps. The portable form is
// stored as bytes, about 40 per node; a live module with its context would cost far more.
//
// Pure: no state between calls. Errors are INVALID_ARGUMENT, and name the node and the user's line.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"
#include "pathways/resource/topology.h"

namespace pw::ir {

// Returns the portable form. Checks the types of all nodes against the executables (the program's, in its order). Inserts a
// transfer where an executable needs an input on other devices or with another sharding.
absl::StatusOr<std::string> ImportProgram(const program::Program& program, absl::Span<const program::ExecutablePtr> executables);

// Returns the hosts' steps. REQUIRES: `portable` is ImportProgram's result for this program. The topology has all devices of the
// program. The executables may have been compiled anew, but have the types that ImportProgram saw.
absl::StatusOr<program::HostPrograms> LowerProgram(std::string_view portable, const program::Program& program,
                                                   absl::Span<const program::ExecutablePtr> executables,
                                                   const resource::Topology& topology);

// Returns the portable form as text, with locations.
std::string PrintProgram(std::string_view portable);

}  // namespace pw::ir
