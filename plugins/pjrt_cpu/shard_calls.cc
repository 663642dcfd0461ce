#include "plugins/pjrt_cpu/shard_calls.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "plugins/pjrt_cpu/lapack/handler.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/custom_call_sharding_helper.h"
#include "xla/service/spmd/spmd_partitioner.h"
#include "xla/shape_util.h"

namespace pw::pjrt_cpu {
namespace {

constexpr char kShardingReport[] = "pathways_sharding_report";

class OnShards : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    const auto& custom = static_cast<const xla::HloCustomCallInstruction&>(*call);
    std::vector<xla::HloInstruction*> shards;
    std::vector<xla::Shape> layouts;  // of the shards, as those of the operands are wanted
    for (int64_t i = 0; i < call->operand_count(); ++i) {
      shards.push_back(partitioner->GetPartitionedHlo(call->operand(i)).hlo());
      layouts.push_back(shards.back()->shape());
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
  // The calls of all devices are wanted.
  bool CanSideEffectingHaveReplicatedSharding() const override { return true; }
};

// The call stays, with its answer and without its operand: nothing is computed or moved for it.
class Report : public xla::CustomCallPartitioner {
 public:
  absl::Status Partition(xla::spmd::SpmdPartitioningVisitor* partitioner, xla::HloInstruction* call) const override {
    const auto& custom = static_cast<const xla::HloCustomCallInstruction&>(*call);
    const xla::spmd::PartitionedHlo value = partitioner->GetPartitionedHlo(call->operand(0));
    std::unique_ptr<xla::HloInstruction> report = xla::HloInstruction::CreateCustomCall(
        xla::ShapeUtil::MakeNil(), {}, kShardingReport, custom.raw_backend_config_string(), custom.api_version());
    static_cast<xla::HloCustomCallInstruction&>(*report).set_custom_call_has_side_effect(true);
    report->set_sharding(xla::HloSharding::Replicate());
    xla::HloInstruction* added = partitioner->builder()->AddInstruction(std::move(report));  // which gives it the call's attributes
    added->add_frontend_attribute("pathways_sharding", absl::Base64Escape(value.sharding().ToProto().SerializeAsString()));
    partitioner->SetPartitionedHlo(call, added);
    return absl::OkStatus();
  }
  bool CanSideEffectingHaveReplicatedSharding() const override { return true; }
};

ffi::Error Nothing(ffi::RemainingArgs) { return ffi::Error::Success(); }

}  // namespace

absl::Status RegisterShardCalls() {
  XLA_FFI_DEFINE_HANDLER(nothing, Nothing, ffi::Ffi::Bind().RemainingArgs());
  if (absl::Status s = RegisterFfiHandler(kShardingReport, nothing, /*in_batches=*/false); !s.ok()) return s;
  xla::RegisterCustomCallPartitioner(kCallbackOnShards, std::make_unique<OnShards>());
  xla::RegisterCustomCallPartitioner(kShardingReport, std::make_unique<Report>());
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
