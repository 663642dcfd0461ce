// Replaces the MLIR header of the same name, which newer wheels' XLA includes and which needs LLVM's.
#pragma once

#include "mlir/IR/BuiltinOps.h"
