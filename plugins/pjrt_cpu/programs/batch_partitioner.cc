#include "plugins/pjrt_cpu/programs/batch_partitioner.h"

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "plugins/pjrt_cpu/versions/xla.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/custom_call_sharding_helper.h"
#include "xla/service/spmd/spmd_partitioner.h"
#include "xla/shape.h"
#include "xla/shape_util.h"

namespace pw::pjrt_cpu {
namespace {

using xla::HloSharding;

int64_t BatchDims(const xla::HloInstruction& call) {
  const auto& attributes = call.frontend_attributes().map();
  const auto it = attributes.find("num_batch_dims");
  int64_t count = 0;
  return it != attributes.end() && absl::SimpleAtoi(it->second, &count) ? count : 0;
}

const xla::Shape& FirstResult(const xla::HloInstruction& call) {
  return call.shape().IsTuple() ? call.shape().tuple_shapes(0) : call.shape();
}

HloSharding FirstSharding(const xla::HloInstruction& call) {
  return versions::OverTiles(call.shape().IsTuple() ? call.sharding().GetSubSharding(call.shape(), {0}) : call.sharding());
}

// The sharding of the batch dimensions, for values of any rank.
class BatchSharding {
 public:
  BatchSharding(const HloSharding& sharding, int64_t batch_dims) : batch_dims_(batch_dims), batch_(HloSharding::Replicate()) {
    if (!sharding.IsTiled() || sharding.IsManualSubgroup()) return;
    std::vector<int64_t> keep(batch_dims);
    std::iota(keep.begin(), keep.end(), 0);
    batch_ = xla::hlo_sharding_util::PartiallyReplicateTiledShardingOnAllDimsExcept(sharding, keep);
  }
  bool splits() const { return batch_.IsTiled(); }

  HloSharding For(const xla::Shape& shape) const {
    const xla::TileAssignment& tiles = batch_.tile_assignment();
    std::vector<int64_t> dims(shape.dimensions().size(), 1);
    for (int64_t i = 0; i < batch_dims_; ++i) dims[i] = tiles.dim(i);
    if (!batch_.ReplicateOnLastTileDim()) return HloSharding::Tile(tiles.Reshape(dims));
    dims.push_back(tiles.dim(tiles.num_dimensions() - 1));
    return HloSharding::PartialTile(tiles.Reshape(dims));
  }

 private:
  const int64_t batch_dims_;
  HloSharding batch_;
};

bool BeginsWithBatch(const xla::Shape& shape, const xla::Shape& first, int64_t batch_dims) {
  if (!shape.IsArray() || static_cast<int64_t>(shape.dimensions().size()) < batch_dims) return false;
  for (int64_t i = 0; i < batch_dims; ++i) {
    if (shape.dimensions(i) != first.dimensions(i)) return false;
  }
  return true;
}

class BatchPartitioner : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    if (call->sharding().IsManual()) return LeaveInPlace(partitioner, call);
    const int64_t batch_dims = BatchDims(*call);
    if (batch_dims == 0 || !Fits(*call, batch_dims)) return partitioner->DefaultAction(call);
    const BatchSharding sharding(FirstSharding(*call), batch_dims);
    if (!sharding.splits()) return partitioner->DefaultAction(call);
    xla::HloInstruction* local = partitioner->builder()->AddInstruction(MakeLocal(partitioner, *call, sharding));
    const xla::spmd::PartitionedHlo result(local, call->shape(), partitioner->MakePartitioningState());
    // Users of a tuple element ask for the element's sharding; users of an array expect the planned sharding.
    partitioner->SetPartitionedHlo(call, call->shape().IsTuple() ? xla::spmd::PartitionedHlo(result)
                                                                 : xla::spmd::PartitionedHlo(result).Reshard(call->sharding()));
    return absl::OkStatus();
  }

 private:
  // In the body of a shard_map every device already has its values.
  static absl::Status LeaveInPlace(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) {
    std::vector<xla::HloInstruction*> operands;
    for (const xla::HloInstruction* operand : call->operands()) operands.push_back(partitioner->GetPartitionedHlo(operand).hlo());
    partitioner->SetPartitionedHlo(call,
                                   partitioner->builder()->AddInstruction(call->CloneWithNewOperands(call->shape(), operands)));
    return absl::OkStatus();
  }

  static bool Fits(const xla::HloInstruction& call, int64_t batch_dims) {
    const xla::Shape& first = FirstResult(call);
    if (!BeginsWithBatch(first, first, batch_dims)) return false;
    for (const xla::HloInstruction* operand : call.operands()) {
      if (!BeginsWithBatch(operand->shape(), first, batch_dims)) return false;
    }
    if (!call.shape().IsTuple()) return true;
    for (const xla::Shape& shape : call.shape().tuple_shapes()) {
      if (!BeginsWithBatch(shape, first, batch_dims)) return false;
    }
    return true;
  }

  // Makes the same call for one device's part of the batch.
  static std::unique_ptr<xla::HloInstruction> MakeLocal(xla::spmd::SpmdPartitioningVisitor* partitioner,
                                                        const xla::HloInstruction& call, const BatchSharding& sharding) {
    const auto& custom = static_cast<const xla::HloCustomCallInstruction&>(call);
    std::vector<xla::HloInstruction*> operands;
    std::vector<xla::Shape> layouts;
    for (int64_t i = 0; i < call.operand_count(); ++i) {
      const HloSharding part = sharding.For(call.operand(i)->shape());
      operands.push_back(partitioner->GetPartitionedHlo(call.operand(i)).Reshard(part).hlo());
      if (custom.layout_constrained()) layouts.push_back(part.TileShape(custom.operand_shapes_with_layout()[i]));
    }
    xla::Shape shape = call.shape();
    std::vector<HloSharding> parts;
    if (shape.IsTuple()) {
      for (xla::Shape& element : *shape.mutable_tuple_shapes()) {
        parts.push_back(sharding.For(element));
        element = parts.back().TileShape(element);
      }
    } else {
      parts.push_back(sharding.For(shape));
      shape = parts.back().TileShape(shape);
    }
    std::unique_ptr<xla::HloInstruction> local =
        custom.layout_constrained()
            ? xla::HloInstruction::CreateCustomCall(shape, operands, custom.custom_call_target(), layouts, "",
                                                    custom.api_version())
            : xla::HloInstruction::CreateCustomCall(shape, operands, custom.custom_call_target(), "", custom.api_version());
    auto& made = static_cast<xla::HloCustomCallInstruction&>(*local);
    made.set_raw_backend_config_string(custom.raw_backend_config_string());
    made.set_custom_call_has_side_effect(custom.custom_call_has_side_effect());
    made.set_output_to_operand_aliasing(custom.output_to_operand_aliasing());
    made.set_metadata(custom.metadata());
    made.set_sharding(shape.IsTuple() ? HloSharding::Tuple(shape, parts) : parts[0]);
    return local;
  }
};

}  // namespace

void RegisterBatchPartitionable(absl::string_view target) {
  xla::RegisterCustomCallPartitioner(target, std::make_unique<BatchPartitioner>());
}

}  // namespace pw::pjrt_cpu
