#include <algorithm>
#include <map>
#include <optional>

#include "mlir/IR/Builders.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/ir/passes.h"
#include "pathways/ir/places.h"

namespace pw::ir {

#define GEN_PASS_DEF_CHOOSEROUTES
#include "pathways/ir/passes.h.inc"

namespace {

// The cost of one step of a transfer.
struct Cost {
  int64_t bytes = 0;    // sent between hosts
  int64_t busiest = 0;  // bytes of the busiest host, in or out, weighted between islands, plus the latency in bytes
};

class Chooser {
 public:
  explicit Chooser(mlir::ModuleOp module) : places_(module) {
    auto machine = TheOnly<MachineOp>(module);
    latency_ = static_cast<int64_t>(machine.getLatencyBytes());
    distant_ = static_cast<int64_t>(machine.getDistant());
    for (size_t i = 0; i < machine.getHosts().size(); ++i) island_of_[machine.getHosts()[i]] = machine.getIslands()[i];
  }

  mlir::LogicalResult Route(TransferOp transfer) {
    const ArrayType from = transfer.getInput().getType(), to = transfer.getOutput().getType();
    const std::optional<Cost> direct = CostOf(from, to, transfer);
    if (!direct) return mlir::failure();
    if (const ArrayType parts = Parts(to); parts && direct->busiest > latency_) {
      const std::optional<Cost> first = CostOf(from, parts, transfer), second = CostOf(parts, to, transfer);
      if (!first || !second) return mlir::failure();
      if (first->busiest + second->busiest < direct->busiest) {
        mlir::OpBuilder builder(transfer);
        auto scatter = builder.create<TransferOp>(transfer.getLoc(), parts, transfer.getInput(), nullptr);
        Mark(scatter, *first);
        transfer.getInputMutable().set(scatter);
        Mark(transfer, *second);
        return mlir::success();
      }
    }
    Mark(transfer, *direct);
    return mlir::success();
  }

 private:
  // If `to` is replicated over several hosts, returns its type cut into one part per device. Null if that is not possible.
  ArrayType Parts(ArrayType to) {
    const int devices = places_.NumDevices(to.getMesh());
    if (!to.getTiles().empty() || places_.HostsOf(to.getMesh()).size() < 2) return {};
    for (size_t d = 0; d < to.getDims().size(); ++d) {
      if (to.getDims()[d] == 0 || to.getDims()[d] % devices != 0) continue;
      llvm::SmallVector<int64_t> tiles(to.getDims().size(), 1);
      tiles[d] = devices;
      return ArrayType::get(to.getContext(), to.getDtype(), to.getDims(), to.getMesh(), tiles, {}, to.getMemory());
    }
    return {};
  }

  std::optional<Cost> CostOf(ArrayType from, ArrayType to, TransferOp at) {
    auto [known, is_new] = costs_.try_emplace({from, to});
    if (!is_new) return known->second;
    const Places::SpecPtr source = places_.Spec(from, at), target = places_.Spec(to, at);
    if (source == nullptr || target == nullptr) return std::nullopt;
    auto host_of = [&](DeviceId device) { return places_.HostOf(device); };
    const auto plan = buffers::PlanReshard(target->dims, source->sharding, target->sharding, host_of);
    if (!plan.ok()) {
      at.emitError() << std::string(plan.status().message());
      return std::nullopt;
    }
    return known->second = Sum(*plan, *source, *target);
  }

  Cost Sum(const buffers::ReshardPlan& plan, const buffers::ArraySpec& source, const buffers::ArraySpec& target) {
    Cost cost;
    std::map<HostId, int64_t> in, out;
    const int64_t width = buffers::HostBytes(target.dtype);
    for (const buffers::ReshardShard& shard : plan) {
      const HostId to = places_.HostOf(target.sharding.devices()[shard.shard]);
      for (const buffers::ReshardPiece& piece : shard.pieces) {
        const HostId from = places_.HostOf(source.sharding.devices()[piece.source_shard]);
        if (from == to) continue;
        const int64_t bytes = piece.to.elements() * width;
        const bool distant = IslandOf(from) != IslandOf(to);
        cost.bytes += bytes;
        in[to] += bytes * (distant ? distant_ : 1);
        out[from] += bytes * (distant ? distant_ : 1);
      }
    }
    for (const auto* side : {&in, &out}) {
      for (const auto& [host, bytes] : *side) cost.busiest = std::max<int64_t>(cost.busiest, bytes + latency_);
    }
    return cost;
  }

  int32_t IslandOf(HostId host) const { return island_of_.at(static_cast<int32_t>(host.v)); }

  static int64_t NumTiles(ArrayType type) {
    int64_t tiles = 1;
    for (int64_t count : type.getTiles()) tiles *= count;
    return tiles;
  }

  static const char* Kind(ArrayType from, ArrayType to, const Cost& cost) {
    if (cost.bytes == 0) return "local";
    if (from.getTiles() == to.getTiles() && from.getOrder() == to.getOrder()) return "copy";
    if (NumTiles(from) == NumTiles(to)) return "reshard";
    return NumTiles(from) < NumTiles(to) ? "scatter" : "gather";
  }

  static void Mark(TransferOp transfer, const Cost& cost) {
    transfer.setRoute(Kind(transfer.getInput().getType(), transfer.getOutput().getType(), cost));
    transfer.setBytes(cost.bytes);
  }

  Places places_;
  int64_t latency_, distant_;
  std::map<int32_t, int32_t> island_of_;  // by host
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>, Cost> costs_;
};

struct ChooseRoutes : impl::ChooseRoutesBase<ChooseRoutes> {
  void runOnOperation() override {
    auto devices = TheOnly<VirtualDevicesOp>(getOperation());
    if (!devices || !devices.getHosts() || !TheOnly<MachineOp>(getOperation())) {
      getOperation().emitError() << "the program has no place yet: run pw-place first";
      return signalPassFailure();
    }
    Chooser chooser(getOperation());
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      for (TransferOp transfer : llvm::make_early_inc_range(program.getOps<TransferOp>())) {
        if (failed(chooser.Route(transfer))) return signalPassFailure();
      }
    }
  }
};

}  // namespace
}  // namespace pw::ir
