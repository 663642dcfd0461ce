// Converts a client's program to our MLIR dialect (docs/ir.md), with the types of its compiled executables.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/ir/dialect.h"
#include "pathways/program/program.h"

namespace pw::ir {

// Returns a module that is not verified yet. INVALID_ARGUMENT if a type is invalid by itself.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> Import(mlir::MLIRContext* context, const program::Program& program,
                                                         absl::Span<const program::ExecutablePtr> executables);

}  // namespace pw::ir
