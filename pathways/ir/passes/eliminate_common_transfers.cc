#include "llvm/ADT/DenseMap.h"
#include "pathways/ir/passes.h"

namespace pw::ir {

#define GEN_PASS_DEF_ELIMINATECOMMONTRANSFERS
#include "pathways/ir/passes.h.inc"

namespace {

struct EliminateCommonTransfers : impl::EliminateCommonTransfersBase<EliminateCommonTransfers> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> done;
      for (mlir::Operation& op : llvm::make_early_inc_range(program.getBody().front())) {
        auto transfer = mlir::dyn_cast<TransferOp>(op);
        if (!transfer || transfer.getInput().getType().getMemory() != transfer.getOutput().getType().getMemory()) continue;
        auto [first, is_first] = done.try_emplace({transfer.getInput(), transfer.getOutput().getType()}, transfer.getOutput());
        if (is_first) continue;
        transfer.getOutput().replaceAllUsesWith(first->second);
        transfer.erase();
      }
    }
  }
};

}  // namespace
}  // namespace pw::ir
