#include "plugins/pjrt_cpu/programs/shard_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "plugins/pjrt_cpu/lapack/handler.h"
#include "plugins/pjrt_cpu/versions/xla.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/custom_call_sharding_helper.h"
#include "xla/service/spmd/spmd_partitioner.h"
#include "xla/shape_util.h"

namespace pw::pjrt_cpu {
namespace {

constexpr char kShardingReport[] = "pathways_sharding_report";
constexpr char kOrderHint[] = "control_dep";

// Returns this device's part of each operand.
std::vector<xla::HloInstruction*> Parts(xla::spmd::SpmdPartitioningVisitor& partitioner, const xla::HloInstruction& call) {
  std::vector<xla::HloInstruction*> parts;
  for (const xla::HloInstruction* operand : call.operands()) parts.push_back(partitioner.GetPartitionedHlo(operand).hlo());
  return parts;
}

// Replaces `call` by the same call with these operands, on each device.
xla::HloInstruction* Keep(xla::spmd::SpmdPartitioningVisitor& partitioner, xla::HloInstruction* call,
                          absl::Span<xla::HloInstruction* const> operands) {
  const auto& custom = static_cast<const xla::HloCustomCallInstruction&>(*call);
  std::unique_ptr<xla::HloInstruction> kept = xla::HloInstruction::CreateCustomCall(
      xla::ShapeUtil::MakeNil(), operands, custom.custom_call_target(), custom.raw_backend_config_string(), custom.api_version());
  static_cast<xla::HloCustomCallInstruction&>(*kept).set_custom_call_has_side_effect(true);
  kept->set_sharding(xla::HloSharding::Replicate());
  xla::HloInstruction* added = partitioner.builder()->AddInstruction(std::move(kept));  // copies the call's attributes
  partitioner.SetPartitionedHlo(call, added);
  return added;
}

class OnShards : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    const auto& custom = static_cast<const xla::HloCustomCallInstruction&>(*call);
    const std::vector<xla::HloInstruction*> shards = Parts(*partitioner, *call);
    std::vector<xla::Shape> layouts;  // layouts of the shards: those that the call requests for its operands
    for (size_t i = 0; i < shards.size(); ++i) {
      layouts.push_back(shards[i]->shape());
      if (custom.layout_constrained()) *layouts.back().mutable_layout() = custom.operand_shapes_with_layout()[i].layout();
    }
    std::unique_ptr<xla::HloInstruction> local =
        custom.layout_constrained()
            ? xla::HloInstruction::CreateCustomCall(call->shape(), shards, kCallbackOnShards, layouts,
                                                    custom.raw_backend_config_string(), custom.api_version())
            : xla::HloInstruction::CreateCustomCall(call->shape(), shards, kCallbackOnShards, custom.raw_backend_config_string(),
                                                    custom.api_version());
    static_cast<xla::HloCustomCallInstruction&>(*local).set_custom_call_has_side_effect(true);
    local->set_sharding(xla::HloSharding::Replicate());
    partitioner->SetPartitionedHlo(call, partitioner->builder()->AddInstruction(std::move(local)));
    return absl::OkStatus();
  }
  // The calls of all devices must run.
  bool CanSideEffectingHaveReplicatedSharding() const override { return true; }
};

// Keeps the call without its operand, so that no value is computed or moved for it, and adds its report.
class Report : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    const xla::HloSharding found = versions::OverTiles(partitioner->GetPartitionedHlo(call->operand(0)).sharding());
    const std::string sharding = found.ToProto().SerializeAsString();
    Keep(*partitioner, call, {})->add_frontend_attribute("pathways_sharding", absl::Base64Escape(sharding));
    return absl::OkStatus();
  }
  bool CanSideEffectingHaveReplicatedSharding() const override { return true; }
};

// Keeps the call, with each device's own parts as operands: newer XLA orders both operands, and removes the call.
class OrderHint : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    Keep(*partitioner, call, Parts(*partitioner, *call));
    return absl::OkStatus();
  }
  bool CanSideEffectingHaveReplicatedSharding() const override { return true; }
};

ffi::Error Nothing(ffi::RemainingArgs) { return ffi::Error::Success(); }

}  // namespace

absl::Status RegisterShardCalls() {
  XLA_FFI_DEFINE_HANDLER(nothing, Nothing, ffi::Ffi::Bind().RemainingArgs());
  for (const char* name : {kShardingReport, kOrderHint}) {
    if (absl::Status s = RegisterFfiHandler(name, nothing, /*in_batches=*/false); !s.ok()) return s;
  }
  xla::RegisterCustomCallPartitioner(kCallbackOnShards, std::make_unique<OnShards>());
  xla::RegisterCustomCallPartitioner(kShardingReport, std::make_unique<Report>());
  xla::RegisterCustomCallPartitioner(kOrderHint, std::make_unique<OrderHint>());
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
