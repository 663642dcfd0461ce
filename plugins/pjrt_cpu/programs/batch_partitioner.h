// Partitions custom calls over batches: linear algebra routines whose operands and results all begin with the same batch
// dimensions. If these are sharded, every device works on its part; without this, XLA would gather the whole batch on every
// device.
#pragma once

#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {

// Registers the partitioner for calls of this target. It applies to calls with the frontend attribute "num_batch_dims", which jax
// writes: the number of batch dimensions. XLA handles other calls.
void RegisterBatchPartitionable(absl::string_view target);

}  // namespace pw::pjrt_cpu
