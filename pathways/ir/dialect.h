// The dialect `pw` (docs/ir.md). Only this folder, and it only, sees MLIR; what others use of the IR is compile.h.
//
// Contexts are made for one piece of work, on the strand that does it, with MLIR's own threads off: types and attributes live as long as
// their context, so one that is kept would grow with every program.
#pragma once

#include <optional>
#include <string>

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "pathways/buffers/dtype.h"

// Generated from dialect.td and ops.td.
#include "pathways/ir/dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "pathways/ir/types.h.inc"
#define GET_OP_CLASSES
#include "pathways/ir/ops.h.inc"

namespace pw::ir {

// The client's node of an operation, and where it stands in the user's source ("train.py:37 in step", or empty).
mlir::Location MakeLocation(mlir::MLIRContext* context, int node, std::string_view place);
std::optional<int> NodeOf(mlir::Location location);

// None where there is no attribute. Unlike ODS's optional lists, safe to iterate over.
inline llvm::ArrayRef<int32_t> Ints(mlir::DenseI32ArrayAttr list) { return list ? list.asArrayRef() : llvm::ArrayRef<int32_t>(); }

// The only operation of its kind in a module, or null.
template <class OpT>
OpT TheOnly(mlir::ModuleOp module) {
  auto ops = module.getOps<OpT>();
  return ops.empty() ? OpT() : *ops.begin();
}

}  // namespace pw::ir
