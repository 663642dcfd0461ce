#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/ir/passes.h"

namespace pw::ir {

#define GEN_PASS_DEF_PLACE
#include "pathways/ir/passes.h.inc"

namespace {

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;

struct Place : impl::PlaceBase<Place> {
  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    devices_op_ = TheOnly<VirtualDevicesOp>(module);
    machine_ = TheOnly<MachineOp>(module);
    if (!devices_op_ || !machine_) {
      module.emitError() << "there is no "
                         << (devices_op_ ? "pw.machine to place the program on" : "pw.virtual_devices: assign them first");
      return signalPassFailure();
    }
    devices_.assign(devices_op_.getDevices().begin(), devices_op_.getDevices().end());
    physical_ = machine_.getPhysical();
    entry_.clear(), load_.clear();
    const llvm::ArrayRef<int32_t> all = machine_.getDevices();
    entry_.reserve(all.size()), load_.reserve(all.size());
    for (size_t i = 0; i < all.size(); ++i) entry_[all[i]] = i;
    if (failed(CountLoad()) || failed(Choose()) || failed(CheckComputations())) return signalPassFailure();
    llvm::SmallVector<int32_t> hosts;
    const llvm::ArrayRef<int32_t> host_of = machine_.getHosts();
    hosts.reserve(devices_.size());
    for (int32_t device : devices_) hosts.push_back(host_of[entry_.at(device)]);
    devices_op_.setDevices(devices_);
    devices_op_.setHosts(hosts);
  }

 private:
  LogicalResult CountLoad() {
    for (int32_t device : devices_) {
      if (device == kAnyDevice) continue;
      if (!entry_.contains(device)) return devices_op_.emitError() << "the machine has no device " << device;
      ++load_[physical_[entry_.at(device)]];
    }
    return success();
  }

  LogicalResult Choose() {
    for (MeshOp mesh : getOperation().getOps<MeshOp>()) {
      std::vector<int32_t> open;  // virtual devices
      for (int32_t v : mesh.getVirtualDevicesAttr().asArrayRef()) {
        if (devices_[v] == kAnyDevice) open.push_back(v);
      }
      if (!open.empty() && failed(ChooseFor(mesh, open))) return failure();
    }
    return success();
  }

  // Returns the devices of each island, least used first.
  std::map<int32_t, std::vector<int32_t>> Islands() {
    std::map<int32_t, std::vector<int32_t>> islands;
    for (const auto& [device, i] : entry_) {
      if (physical_[i] == device) islands[machine_.getIslands()[i]].push_back(device);
    }
    for (auto& [island, devices] : islands) {
      std::sort(devices.begin(), devices.end(),
                [&](int32_t a, int32_t b) { return std::pair(load_[a], a) < std::pair(load_[b], b); });
    }
    return islands;
  }

  LogicalResult ChooseFor(MeshOp mesh, const std::vector<int32_t>& open) {
    const std::map<int32_t, int64_t> near = BytesExchanged(mesh);
    const std::vector<int32_t>* best = nullptr;
    std::pair<int64_t, int64_t> best_score;  // negative load, then bytes exchanged
    const auto islands = Islands();
    for (const auto& [island, devices] : islands) {
      if (devices.size() < open.size()) continue;
      const auto bytes = near.find(island);
      const std::pair<int64_t, int64_t> score{-load_[devices[open.size() - 1]], bytes == near.end() ? 0 : bytes->second};
      if (best == nullptr || score > best_score) best = &devices, best_score = score;
    }
    if (best == nullptr) return mesh.emitError() << "no island has " << open.size() << " devices for mesh " << mesh.getSymName();
    for (size_t i = 0; i < open.size(); ++i) {
      devices_[open[i]] = (*best)[i];
      ++load_[(*best)[i]];
    }
    return success();
  }

  // Returns the bytes that the mesh exchanges with each island, in transfers whose other end is placed.
  std::map<int32_t, int64_t> BytesExchanged(MeshOp mesh) {
    std::map<int32_t, int64_t> bytes;
    const mlir::SymbolTable symbols(getOperation());
    getOperation().walk([&](TransferOp transfer) {
      const ArrayType from = transfer.getInput().getType(), to = transfer.getOutput().getType();
      for (auto [near, far] : {std::pair(from, to), std::pair(to, from)}) {
        if (near.getMesh().getValue() != mesh.getSymName()) continue;
        const int32_t device = devices_[(symbols.lookup<MeshOp>(far.getMesh().getValue()).getVirtualDevicesAttr())[0]];
        if (device != kAnyDevice) bytes[machine_.getIslands()[entry_.at(device)]] += transfer.getInput().getType().bytes();
      }
    });
    return bytes;
  }

  // Checks that each computation has a different physical device for each of its shards.
  LogicalResult CheckComputations() {
    const mlir::SymbolTable symbols(getOperation());
    for (ExecutableOp executable : getOperation().getOps<ExecutableOp>()) {
      absl::flat_hash_map<int32_t, int32_t> user;  // the device on each physical device
      const llvm::ArrayRef<int32_t> virtuals = symbols.lookup<MeshOp>(executable.getMesh()).getVirtualDevicesAttr().asArrayRef();
      user.reserve(virtuals.size());
      for (int32_t v : virtuals) {
        const int32_t physical = physical_[entry_.at(devices_[v])];
        auto [it, is_new] = user.try_emplace(physical, devices_[v]);
        if (is_new) continue;
        return executable.emitError() << "program " << executable.getLabel() << " cannot run: its devices " << it->second
                                      << " and " << devices_[v] << " are both on physical device " << physical;
      }
    }
    return success();
  }

  VirtualDevicesOp devices_op_;
  MachineOp machine_;
  std::vector<int32_t> devices_;                // the device, or kAnyDevice, by virtual device
  llvm::ArrayRef<int32_t> physical_;            // the physical device, by entry of the machine's lists
  absl::flat_hash_map<int32_t, size_t> entry_;  // the entry in the machine's lists, by device
  absl::flat_hash_map<int32_t, int64_t> load_;  // the number of virtual devices, by physical device
};

}  // namespace
}  // namespace pw::ir
