// Places: gives the ArraySpecs and hosts of the arrays of a placed module. Passes and Export use it.
//
// It reads `pw.virtual_devices` once, and makes each type's spec once. It serves one module, and must not outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/SymbolTable.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/ir/dialect.h"

namespace pw::ir {

class Places {
 public:
  using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;
  using Hosts = std::vector<int32_t>;  // ascending

  // REQUIRES: pw-place has run.
  explicit Places(mlir::ModuleOp module);

  // Returns the spec of arrays of this type; null, with an error at `at`, if the tiles do not fit the mesh.
  SpecPtr Spec(ArrayType type, mlir::Operation* at);
  const Hosts& HostsOf(mlir::FlatSymbolRefAttr mesh);
  int NumDevices(mlir::FlatSymbolRefAttr mesh) { return static_cast<int>(Of(mesh).devices.size()); }
  HostId HostOf(DeviceId device) const { return HostId(static_cast<uint32_t>(host_of_.at(device))); }

 private:
  struct Mesh {
    std::vector<DeviceId> devices;
    Hosts hosts;
  };
  const Mesh& Of(mlir::FlatSymbolRefAttr mesh);

  const mlir::SymbolTable symbols_;
  VirtualDevicesOp devices_;
  absl::flat_hash_map<DeviceId, int32_t> host_of_;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<Mesh>> meshes_;
  llvm::DenseMap<mlir::Type, SpecPtr> specs_;
};

}  // namespace pw::ir
