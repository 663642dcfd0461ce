// The passes of the pipeline (docs/ir.md says what each does), in its order. Each is stateless between modules.
#pragma once

#include <cstdint>
#include <memory>

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "pathways/ir/dialect.h"

namespace pw::ir {

inline constexpr int32_t kAnyDevice = -1;  // in pw.virtual_devices: the machine chooses (pw-place)

// Generated from passes.td.
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "pathways/ir/passes.h.inc"

// What holds whatever the mapping: devices numbered, transfers in place.
void AddPortablePasses(mlir::OpPassManager& passes);
// From there to the hosts, for the machine in the module.
void AddPlacementPasses(mlir::OpPassManager& passes);

}  // namespace pw::ir
