// Converts a lowered module to HostPrograms, the input of dispatch.
#pragma once

#include <optional>

#include "absl/types/span.h"
#include "pathways/ir/dialect.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"

namespace pw::ir {

// Returns nullopt, with an error at the operation, if a sharding does not fit. Arguments and results of executables keep the layouts that
// the program and the executables give them. REQUIRES: pw-lower-to-hosts has run.
std::optional<program::HostPrograms> Export(mlir::ModuleOp module, const program::Program& program,
                                            absl::Span<const program::ExecutablePtr> executables);

}  // namespace pw::ir
