// From the program that a client sent, and what its executables turned out to take and make, to the IR.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/ir/dialect.h"
#include "pathways/program/program.h"

namespace pw::ir {

// The module is not verified. INVALID_ARGUMENT where the types make no sense by themselves.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> Import(mlir::MLIRContext* context, const program::Program& program,
                                                         absl::Span<const program::ExecutablePtr> executables);

}  // namespace pw::ir
