#include "pathways/ir/passes.h"

namespace pw::ir {

#define GEN_PASS_DEF_ELIMINATEDEADTRANSFERS
#include "pathways/ir/passes.h.inc"

namespace {

struct EliminateDeadTransfers : impl::EliminateDeadTransfersBase<EliminateDeadTransfers> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      mlir::Block& body = program.getBody().front();
      // Users stand after their operands. So, going backwards, a transfer is visited after its users are gone.
      for (mlir::Operation& op : llvm::make_early_inc_range(llvm::reverse(body))) {
        auto transfer = mlir::dyn_cast<TransferOp>(op);
        if (!transfer) continue;
        const ArrayType from = transfer.getInput().getType(), to = transfer.getOutput().getType();
        if (from == to) transfer.getOutput().replaceAllUsesWith(transfer.getInput());
        if (transfer.getOutput().use_empty()) transfer.erase();
      }
    }
  }
};

}  // namespace
}  // namespace pw::ir
