#include "mlir/IR/Builders.h"
#include "pathways/ir/passes.h"

namespace pw::ir {

#define GEN_PASS_DEF_INSERTTRANSFERS
#include "pathways/ir/passes.h.inc"

namespace {

// Kinds of memory need not match: an executable takes arrays in any memory that its devices can read.
bool Fits(ArrayType given, ArrayType wanted) { return given.samePlace(wanted) || wanted.getDtype() == buffers::DType::kToken; }

struct InsertTransfers : impl::InsertTransfersBase<InsertTransfers> {
  void runOnOperation() override {
    const mlir::SymbolTable symbols(getOperation());
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      for (mlir::Operation& op : llvm::make_early_inc_range(*program.getBody().begin())) {
        if (auto compute = mlir::dyn_cast<ComputeOp>(op)) {
          Bring(&op, compute.getInputsMutable(), symbols.lookup<ExecutableOp>(compute.getExecutable()));
        } else if (auto select = mlir::dyn_cast<SelectOp>(op)) {
          const auto first = mlir::cast<mlir::FlatSymbolRefAttr>(select.getBranches()[0]);
          auto executable = symbols.lookup<ExecutableOp>(first.getValue());  // null: a program, whose types must match already
          if (executable) Bring(&op, select.getInputsMutable(), executable);
        }
      }
    }
  }

  static void Bring(mlir::Operation* op, mlir::MutableOperandRange inputs, ExecutableOp executable) {
    mlir::OpBuilder builder(op);
    const auto type = mlir::cast<mlir::FunctionType>(executable.getType());
    for (auto [k, input] : llvm::enumerate(inputs)) {
      const auto given = mlir::cast<ArrayType>(input.get().getType()), wanted = mlir::cast<ArrayType>(type.getInput(k));
      if (Fits(given, wanted)) continue;
      input.set(builder.create<TransferOp>(op->getLoc(), wanted, input.get(), nullptr));
    }
  }
};

}  // namespace
}  // namespace pw::ir
