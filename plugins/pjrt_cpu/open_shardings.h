// Arguments and results whose sharding a client leaves to the compiler.
//
// What the compiler chose is known when it is done; if that splits an axis of a mesh (whole_axes.h says why it must not), the program is
// compiled once more with another sharding written into it. Only such a program pays for it. Others have their meshes looked up before,
// and the shardings of their executable compared with them after, and that only where something was left open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"
#include "plugins/pjrt_cpu/whole_axes.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

// The meshes of a program over several devices that has such arguments or results; none of any other program. A step of the
// compilation may be done in `module` for it: for what else it is needed, parse it anew.
absl::StatusOr<std::vector<Mesh>> MeshesOfOpenShardings(mlir::ModuleOp module, const xla::CompileOptions& options);

struct ClosedSharding {
  bool of_result;
  unsigned index;  // among the arguments, or results
  std::string sharding;
};

// The shardings that are to replace those of the compiled program which were open and split an axis.
std::vector<ClosedSharding> CloseSplitShardings(const std::vector<Mesh>& meshes, const xla::CompileOptions& options,
                                                const std::optional<std::vector<xla::OpSharding>>& arguments,
                                                const std::optional<std::vector<xla::OpSharding>>& results);

// Writes them into a module as it was parsed.
absl::Status WriteShardings(const std::vector<ClosedSharding>& shardings, mlir::ModuleOp module, mlir::MLIRContext& context);

}  // namespace pw::pjrt_cpu
