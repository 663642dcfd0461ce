// Uses of XLA that differ between the wheel of tensorflow-cpu 2.21 ("older XLA") and later ones. The rest of libpjrt_cpu.so
// compiles with both.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mlir/IR/BuiltinOps.h"
#include "xla/backends/cpu/target_machine_options.h"
#include "xla/debug_options_flags.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/hlo/ir/hlo_sharding.h"
#include "xla/pjrt/pjrt_compiler.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"

#if __has_include("xla/pjrt/maybe_owning_mlir_module.h")
#include "xla/pjrt/maybe_owning_mlir_module.h"
#endif

namespace pw::pjrt_cpu::versions {

// Returns a program in the form that the compiler takes. The caller keeps a module, and the compiler changes it in place.
inline const xla::XlaComputation& Borrow(const xla::XlaComputation& program) { return program; }
#if __has_include("xla/pjrt/maybe_owning_mlir_module.h")
inline xla::MaybeOwningMlirModule Borrow(mlir::ModuleOp program) { return xla::MaybeOwningMlirModule(program); }
#else
inline mlir::ModuleOp Borrow(mlir::ModuleOp program) { return program; }
#endif

// Makes a topology. In newer XLA a topology names the machine for which programs are compiled: this machine, as in XLA's own
// clients.
template <typename Topology, typename Devices = xla::CpuTopology>
std::unique_ptr<Topology> MakeTopology(std::vector<xla::CpuTopology::CpuDevice> devices) {
  if constexpr (std::is_constructible_v<Topology, xla::PjRtPlatformId, absl::string_view, absl::string_view, const Devices&>) {
    return std::make_unique<Topology>(
        xla::CpuId(), xla::CpuName(), "cpu",
        Devices(std::move(devices), xla::cpu::TargetMachineOptions(xla::GetDebugOptionsFromFlags())));
  } else {
    return std::make_unique<Topology>(xla::CpuId(), xla::CpuName(), "cpu", std::move(devices), absl::Span<const std::string>());
  }
}

// For OverTiles. These are templates, because older XLA lacks the names.
template <typename Sharding>
auto TilesOf(const Sharding& sharding, int) -> decltype(Sharding::V3ToV2Sharding(sharding)) {
  return sharding.UseNamedShardingLeaf() ? Sharding::V3ToV2Sharding(sharding) : sharding;
}
template <typename Sharding>
Sharding TilesOf(const Sharding& sharding, long) {
  return sharding;
}
// Returns the sharding of an array as a tile assignment. Newer XLA may write it over the named axes of a mesh, and ends the
// process when such a sharding is asked for its tiles.
inline xla::HloSharding OverTiles(const xla::HloSharding& sharding) { return TilesOf(sharding, 0); }

}  // namespace pw::pjrt_cpu::versions
