// From the lowered module to what dispatch reads.
#pragma once

#include <optional>

#include "absl/types/span.h"
#include "pathways/ir/dialect.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"

namespace pw::ir {

// REQUIRES: pw-lower-to-hosts has run. Nothing, with an error at the operation, if a sharding does not fit. Arrays that arguments and
// executables make keep the layouts that those say.
std::optional<program::HostPrograms> Export(mlir::ModuleOp module, const program::Program& program,
                                            absl::Span<const program::ExecutablePtr> executables);

}  // namespace pw::ir
