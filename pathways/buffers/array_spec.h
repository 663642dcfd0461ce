// ArraySpec: everything static about a logical array: element type, whole shape, sharding, layout.
#pragma once

#include <string>

#include "pathways/buffers/dtype.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

struct ArraySpec {
  DType dtype = DType::kInvalid;
  Dims dims;
  Sharding sharding;
  std::string layout;  // a serialized xla.LayoutProto; empty: the default, dense row-major
};

// "f32[8,128] over 4 devices": for messages.
std::string ToString(const ArraySpec& spec);

// Bytes of one shard in host memory. INVALID_ARGUMENT on rank mismatch, negative dims or overflow.
absl::StatusOr<int64_t> ShardHostBytes(const ArraySpec& spec, int shard);

}  // namespace pw::buffers
