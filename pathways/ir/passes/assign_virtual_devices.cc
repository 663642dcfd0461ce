#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "mlir/IR/Builders.h"
#include "pathways/ir/passes.h"

namespace pw::ir {

#define GEN_PASS_DEF_ASSIGNVIRTUALDEVICES
#include "pathways/ir/passes.h.inc"

namespace {

struct AssignVirtualDevices : impl::AssignVirtualDevicesBase<AssignVirtualDevices> {
  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    if (TheOnly<VirtualDevicesOp>(module)) return;
    absl::flat_hash_map<int32_t, int32_t> numbers;  // virtual device of each of the client's devices
    std::vector<int32_t> devices;                   // the client's device, or kAnyDevice, of each virtual device
    for (MeshOp mesh : module.getOps<MeshOp>()) {
      llvm::SmallVector<int32_t> assigned;
      assigned.reserve(mesh.getSize());
      numbers.reserve(numbers.size() + mesh.getSize());
      const std::optional<llvm::ArrayRef<int32_t>> named = mesh.getDevices();
      for (size_t i = 0; i < mesh.getSize(); ++i) {
        if (!named) {
          assigned.push_back(static_cast<int32_t>(devices.size()));
          devices.push_back(kAnyDevice);
          continue;
        }
        const int32_t device = (*named)[i];
        auto [number, is_new] = numbers.try_emplace(device, static_cast<int32_t>(devices.size()));
        if (is_new) devices.push_back(device);
        assigned.push_back(number->second);
      }
      mesh.setVirtualDevices(assigned);
      mesh.removeDevicesAttr();
    }
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(module.getBody());
    builder.create<VirtualDevicesOp>(module.getLoc(), builder.getDenseI32ArrayAttr(devices), nullptr);
  }
};

}  // namespace
}  // namespace pw::ir
