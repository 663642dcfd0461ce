#include "pathways/ir/places.h"

#include <string>
#include <utility>

#include "pathways/base/sort_and_merge.h"

namespace pw::ir {

Places::Places(mlir::ModuleOp module) : symbols_(module), devices_(TheOnly<VirtualDevicesOp>(module)) {
  const llvm::ArrayRef<int32_t> devices = devices_.getDevices(), hosts = *devices_.getHosts();
  host_of_.reserve(devices.size());
  for (size_t v = 0; v < devices.size(); ++v) host_of_[DeviceId(devices[v])] = hosts[v];
}

const Places::Mesh& Places::Of(mlir::FlatSymbolRefAttr mesh) {
  std::unique_ptr<Mesh>& known = meshes_[mesh];
  if (known == nullptr) {
    known = std::make_unique<Mesh>();
    const llvm::ArrayRef<int32_t> devices = devices_.getDevices(), host_of = *devices_.getHosts();
    std::vector<int32_t>& hosts = known->hosts;
    const llvm::ArrayRef<int32_t> virtuals = symbols_.lookup<MeshOp>(mesh.getValue()).getVirtualDevicesAttr().asArrayRef();
    known->devices.reserve(virtuals.size());
    for (int32_t v : virtuals) {
      known->devices.push_back(DeviceId(devices[v]));
      if (hosts.empty() || hosts.back() != host_of[v]) hosts.push_back(host_of[v]);
    }
    SortAndMerge(hosts);
  }
  return *known;
}

const Places::Hosts& Places::HostsOf(mlir::FlatSymbolRefAttr mesh) { return Of(mesh).hosts; }

Places::SpecPtr Places::Spec(ArrayType type, mlir::Operation* at) {
  SpecPtr& known = specs_[type];
  if (known != nullptr) return known;
  auto spec = std::make_shared<buffers::ArraySpec>();
  spec->dtype = type.getDtype();
  spec->dims.assign(type.getDims().begin(), type.getDims().end());
  buffers::Tiles tiles;
  tiles.counts.assign(type.getTiles().begin(), type.getTiles().end());
  tiles.tile_of_shard.assign(type.getOrder().begin(), type.getOrder().end());
  std::string memory = type.getMemory().str();
  absl::StatusOr<buffers::Sharding> sharding =
      tiles.counts.empty() ? buffers::Sharding::Replicated(Of(type.getMesh()).devices, std::move(memory))
                           : buffers::Sharding::Tiled(Of(type.getMesh()).devices, std::move(memory), std::move(tiles));
  absl::Status status = sharding.status();
  if (status.ok()) {
    spec->sharding = *std::move(sharding);
    status = buffers::Validate(*spec);
  }
  if (!status.ok()) {
    at->emitError() << std::string(status.message());
    return nullptr;
  }
  return known = std::move(spec);
}

}  // namespace pw::ir
