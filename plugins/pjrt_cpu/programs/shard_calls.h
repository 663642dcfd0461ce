// Custom calls that depend on how their operands are sharded, which is known only when XLA partitions a program.
//
//   - pathways_host_callback_on_shards: a host callback without results that every device makes with its own shards of the
//     operands. The host registers the handler, through the FFI extension; here XLA learns how to partition it.
//   - pathways_sharding_report: takes one value. It reports the value's sharding in the program's text, and does nothing at run
//     time. In the optimized program the call has one more frontend attribute, `pathways_sharding`: a serialized xla.OpSharding
//     in base 64.
//   - control_dep: jax's hint to compute its first operand before its second. Newer XLA makes a control dependency of it. In the
//     XLA of tensorflow-cpu 2.21 it has no effect: instructions run as soon as their operands exist, and the program waits at
//     once for a started collective.
#pragma once

#include "absl/status/status.h"

namespace pw::pjrt_cpu {

inline constexpr char kCallbackOnShards[] = "pathways_host_callback_on_shards";

// Call once per process, before the first compilation.
absl::Status RegisterShardCalls();

}  // namespace pw::pjrt_cpu
