#include "plugins/pjrt_cpu/programs/ring_costs.h"

#include <algorithm>

#include "xla/hlo/ir/hlo_casting_utils.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/shape_util.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {
namespace {

class RingCounter {
 public:
  explicit RingCounter(int64_t devices) : devices_(devices) {}

  RingCosts Of(const xla::HloComputation& computation) const {
    RingCosts sum;
    for (const xla::HloInstruction* instruction : computation.instructions()) {
      const RingCosts one = Of(*instruction);
      sum.bytes += one.bytes;
      sum.steps += one.steps;
    }
    return sum;
  }

 private:
  RingCosts Of(const xla::HloInstruction& instruction) const {
    switch (instruction.opcode()) {
      case xla::HloOpcode::kAllReduce:
      case xla::HloOpcode::kAllReduceStart:
        return Ring(instruction, OperandBytes(instruction), 2);
      case xla::HloOpcode::kReduceScatter:
      case xla::HloOpcode::kAllToAll:
      case xla::HloOpcode::kRaggedAllToAll:
        return Ring(instruction, OperandBytes(instruction), 1);
      case xla::HloOpcode::kAllGather:
      case xla::HloOpcode::kAllGatherStart:
        return Ring(instruction, OperandBytes(instruction) * GroupSize(instruction), 1);
      case xla::HloOpcode::kCollectiveBroadcast:  // in one piece for each device
        return Ring(instruction, OperandBytes(instruction), 1);
      case xla::HloOpcode::kCollectivePermute:
      case xla::HloOpcode::kCollectivePermuteStart:
        return {OperandBytes(instruction), 1};
      case xla::HloOpcode::kWhile:
        return Times(Of(*instruction.while_body()), TripCount(instruction));
      case xla::HloOpcode::kConditional:
        return Largest(instruction);
      case xla::HloOpcode::kCall:
      case xla::HloOpcode::kAsyncStart:
        return Of(*instruction.called_computations().front());
      default:
        return {};
    }
  }

  static RingCosts Times(RingCosts one, int64_t times) { return {one.bytes * times, one.steps * times}; }

  RingCosts Largest(const xla::HloInstruction& instruction) const {
    RingCosts largest;
    for (const xla::HloComputation* branch : instruction.called_computations()) {
      const RingCosts one = Of(*branch);
      largest = {std::max(largest.bytes, one.bytes), std::max(largest.steps, one.steps)};
    }
    return largest;
  }

  // Returns the costs of `rounds` rounds of the ring, in pieces of `bytes` divided by the number of devices.
  RingCosts Ring(const xla::HloInstruction& instruction, int64_t bytes, int64_t rounds) const {
    const int64_t n = GroupSize(instruction), steps = rounds * (n - 1);
    return {bytes * steps / n, steps};
  }

  int64_t GroupSize(const xla::HloInstruction& instruction) const {
    size_t size = 0;
    for (const xla::ReplicaGroup& group : instruction.replica_groups())
      size = std::max(size, static_cast<size_t>(group.replica_ids_size()));
    return size == 0 ? devices_ : static_cast<int64_t>(size);  // no groups: all devices
  }

  static int64_t OperandBytes(const xla::HloInstruction& instruction) {
    int64_t bytes = 0;
    for (const xla::HloInstruction* operand : instruction.operands()) {
      if (operand->shape().IsArray()) bytes += xla::ShapeUtil::ByteSizeOf(operand->shape());
    }
    return bytes;
  }

  static int64_t TripCount(const xla::HloInstruction& loop) {
    const auto known = loop.backend_config<xla::WhileLoopBackendConfig>();
    return known.ok() && known->has_known_trip_count() ? std::max<int64_t>(known->known_trip_count().n(), 0) : 1;
  }

  const int64_t devices_;
};

}  // namespace

RingCosts CountRings(const xla::HloModule& module) {
  if (module.entry_computation() == nullptr) return {};
  return RingCounter(module.config().replica_count() * module.config().num_partitions()).Of(*module.entry_computation());
}

}  // namespace pw::pjrt_cpu
