// Custom calls that are about how their operands are sharded, which is known when XLA partitions a program and not before.
//
//   pathways_host_callback_on_shards   a host callback without results that every device makes with its own shards of the operands. A
//                                      host registers the handler, through the FFI extension; here XLA is told how to partition it.
//   pathways_sharding_report           takes one value; says in the program's text how that is sharded, and does nothing when it runs.
//                                      Frontend attributes of the call in the optimized program: `pathways_sharding`, a serialized
//                                      xla.OpSharding in base 64, and those that the call had.
//   control_dep                        jax's hint that its first operand be computed before its second. Does nothing: here whatever has its
//                                      operands is computed, and a collective that has started is waited for at once.
#pragma once

#include "absl/status/status.h"

namespace pw::pjrt_cpu {

inline constexpr char kCallbackOnShards[] = "pathways_host_callback_on_shards";

// Once in a process, before the first compilation.
absl::Status RegisterShardCalls();

}  // namespace pw::pjrt_cpu
