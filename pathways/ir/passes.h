// The passes of the pipeline, in its order; docs/ir.md describes them. A pass keeps no state from one module to the next.
#pragma once

#include <cstdint>
#include <memory>

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "pathways/ir/dialect.h"

namespace pw::ir {

inline constexpr int32_t kAnyDevice = -1;  // in pw.virtual_devices: pw-place chooses the device

// Generated from passes.td.
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "pathways/ir/passes.h.inc"

// Adds the passes that make the portable form: they number devices and insert transfers.
void AddPortablePasses(mlir::OpPassManager& passes);
// Adds the passes that lower the portable form to hosts, for the pw.machine in the module.
void AddPlacementPasses(mlir::OpPassManager& passes);

}  // namespace pw::ir
