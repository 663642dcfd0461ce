#include "pathways/ir/passes.h"

namespace pw::ir {

void AddPortablePasses(mlir::OpPassManager& passes) {
  passes.addPass(createAssignVirtualDevices());
  passes.addPass(createInsertTransfers());
  passes.addPass(createEliminateDeadTransfers());
  passes.addPass(createEliminateCommonTransfers());
}

void AddPlacementPasses(mlir::OpPassManager& passes) {
  passes.addPass(createPlace());
  passes.addPass(createChooseRoutes());
  passes.addPass(createLowerToHosts());
}

}  // namespace pw::ir
