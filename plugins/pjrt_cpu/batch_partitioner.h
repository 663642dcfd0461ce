// Custom calls over batches: linear algebra routines whose operands and results all begin with the same batch dimensions. Where those are
// sharded, every device works on its part; without this, XLA gathers the whole batch on every device.
#pragma once

#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {

// Calls of this target say in their frontend attribute "num_batch_dims" how many they are (jax writes it); others are left to XLA.
void RegisterBatchPartitionable(absl::string_view target);

}  // namespace pw::pjrt_cpu
