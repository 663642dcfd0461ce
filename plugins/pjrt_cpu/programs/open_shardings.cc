#include "plugins/pjrt_cpu/programs/open_shardings.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/versions/xla.h"
#include "xla/hlo/ir/hlo_sharding.h"

// Declared in headers of the wheel that need LLVM's.
namespace xla {
absl::Status ExportShardyForHloRoundTrip(mlir::ModuleOp module);
namespace sdy {
mlir::DictionaryAttr getFrontendAttrs(mlir::Operation* operation);
}  // namespace sdy
}  // namespace xla

namespace pw::pjrt_cpu {
namespace {

// Returns whether a value's sharding is open. A single flag applies to all values.
bool IsOpen(absl::Span<const bool> open, size_t values, size_t index) {
  return open.size() == 1 ? open[0] : open.size() == values && open[index];
}

std::optional<Tiling> TilingOf(const xla::OpSharding& proto) {
  const absl::StatusOr<xla::HloSharding> read = xla::HloSharding::FromProto(proto);
  if (!read.ok() || read->IsTuple()) return std::nullopt;
  const xla::HloSharding sharding = versions::OverTiles(*read);
  if (!sharding.IsTiled() || !sharding.subgroup_types().empty()) return std::nullopt;
  Tiling tiling;
  tiling.rank = sharding.TiledDataRank();
  for (int64_t parts : sharding.tile_assignment().dimensions()) tiling.parts.push_back(parts);
  sharding.tile_assignment().Each([&](absl::Span<const int64_t>, int64_t device) { tiling.devices.push_back(device); });
  return tiling;
}

void CloseSplit(const std::vector<Mesh>& meshes, absl::Span<const bool> open,
                const std::optional<std::vector<xla::OpSharding>>& shardings, bool of_results,
                std::vector<ClosedSharding>& closed) {
  if (!shardings.has_value()) return;
  for (size_t i = 0; i < shardings->size(); ++i) {
    if (!IsOpen(open, shardings->size(), i)) continue;
    const std::optional<Tiling> tiling = TilingOf((*shardings)[i]);
    if (!tiling.has_value()) continue;
    if (std::optional<std::string> sharding = OnWholeAxes(*tiling, meshes)) {
      closed.push_back({of_results, static_cast<unsigned>(i), *std::move(sharding)});
    }
  }
}

mlir::StringAttr StringAttribute(absl::string_view text, mlir::MLIRContext& context) {
  const std::string quoted = absl::StrCat("\"", text, "\"");
  return mlir::StringAttr(mlir::parseAttribute(std::string_view(quoted), &context));
}

// Returns the meshes as text, as in programs written for another version of StableHLO; null if there is no such text.
mlir::Attribute MeshesAsText(mlir::ModuleOp module) {
  const mlir::DictionaryAttr attributes = xla::sdy::getFrontendAttrs(module);
  return attributes ? attributes.get(std::string_view("xla.sdy.meshes")) : mlir::Attribute();
}

}  // namespace

absl::StatusOr<std::vector<Mesh>> MeshesOfOpenShardings(mlir::ModuleOp module, const xla::CompileOptions& options) {
  const xla::ExecutableBuildOptions& build = options.executable_build_options;
  if (build.num_partitions() < 2 || !build.use_shardy_partitioner() ||
      !(build.any_allow_spmd_sharding_propagation_to_parameters() || build.any_allow_spmd_sharding_propagation_to_output())) {
    return std::vector<Mesh>();
  }
  mlir::Attribute meshes = MeshesAsText(module);
  if (!meshes) {  // they are operations; the compiler would convert them to text next
    if (absl::Status s = xla::ExportShardyForHloRoundTrip(module); !s.ok()) return s;
    meshes = MeshesAsText(module);
  }
  if (!meshes) return std::vector<Mesh>();
  return ParseMeshes(mlir::StringAttr(meshes).getValue());
}

std::vector<ClosedSharding> CloseSplitShardings(const std::vector<Mesh>& meshes, const xla::CompileOptions& options,
                                                const std::optional<std::vector<xla::OpSharding>>& arguments,
                                                const std::optional<std::vector<xla::OpSharding>>& results) {
  std::vector<ClosedSharding> closed;
  const xla::ExecutableBuildOptions& build = options.executable_build_options;
  CloseSplit(meshes, build.allow_spmd_sharding_propagation_to_parameters(), arguments, false, closed);
  CloseSplit(meshes, build.allow_spmd_sharding_propagation_to_output(), results, true, closed);
  return closed;
}

absl::Status WriteShardings(const std::vector<ClosedSharding>& shardings, mlir::ModuleOp module, mlir::MLIRContext& context) {
  mlir::Operation* entry = mlir::SymbolTable::lookupSymbolIn(module, StringAttribute("main", context));
  if (entry == nullptr) return absl::InvalidArgumentError("the program has no function 'main'");
  const mlir::func::FuncOp function(entry);
  const mlir::StringAttr name = StringAttribute("sdy.sharding", context);
  for (const ClosedSharding& closed : shardings) {
    const mlir::Attribute sharding = mlir::parseAttribute(std::string_view(closed.sharding), &context);
    if (!sharding) return absl::InternalError(absl::StrCat("the compiler does not read the sharding ", closed.sharding));
    if (closed.of_result) {
      mlir::function_interface_impl::setResultAttr(function, closed.index, name, sharding);
    } else {
      mlir::function_interface_impl::setArgAttr(function, closed.index, name, sharding);
    }
  }
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
