// The MLIR dialect `pw` (docs/ir.md). No other folder sees MLIR; other folders use compile.h.
//
// Each call makes an MLIR context of its own, on its strand, with MLIR's threads off. Types and attributes live as long as their
// context, so a long-lived context would grow with every program.
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

// Converts between an operation's location, and the client's node with its place in the user's source ("train.py:37 in step", or empty).
mlir::Location MakeLocation(mlir::MLIRContext* context, int node, std::string_view place);
std::optional<int> NodeOf(mlir::Location location);

// Returns the attribute's numbers, or an empty list if there is no attribute. Unlike ODS's optional lists, it is safe to iterate over.
inline llvm::ArrayRef<int32_t> Ints(mlir::DenseI32ArrayAttr list) { return list ? list.asArrayRef() : llvm::ArrayRef<int32_t>(); }

// Returns the only operation of this kind in a module (the first, if there are several), or null.
template <class OpT>
OpT TheOnly(mlir::ModuleOp module) {
  auto ops = module.getOps<OpT>();
  return ops.empty() ? OpT() : *ops.begin();
}

}  // namespace pw::ir
