// Handles arguments and results whose sharding a client leaves to the compiler.
//
// The compiler's choice is known after compilation. If it splits a mesh axis (whole_axes.h says why it must not), the program is
// compiled again with another sharding written into it. Only such programs pay for that. Other programs with open shardings pay
// only for reading meshes before compilation and comparing shardings after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"
#include "plugins/pjrt_cpu/programs/whole_axes.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

// Returns the meshes of a program over several devices that has such arguments or results; empty for any other program. May apply
// a step of the compilation to `module`: parse it anew for any other use.
absl::StatusOr<std::vector<Mesh>> MeshesOfOpenShardings(mlir::ModuleOp module, const xla::CompileOptions& options);

struct ClosedSharding {
  bool of_result;
  unsigned index;  // among the arguments or results
  std::string sharding;
};

// Returns replacements for the compiled program's shardings that were open and split an axis.
std::vector<ClosedSharding> CloseSplitShardings(const std::vector<Mesh>& meshes, const xla::CompileOptions& options,
                                                const std::optional<std::vector<xla::OpSharding>>& arguments,
                                                const std::optional<std::vector<xla::OpSharding>>& results);

// Writes the shardings into a freshly parsed module.
absl::Status WriteShardings(const std::vector<ClosedSharding>& shardings, mlir::ModuleOp module, mlir::MLIRContext& context);

}  // namespace pw::pjrt_cpu
