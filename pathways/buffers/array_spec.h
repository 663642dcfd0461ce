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

// "0,1,2": the numbers of the devices, of many the first eight and ",...": for messages.
std::string DeviceNumbers(absl::Span<const DeviceId> devices);

// What every use of a spec from outside needs: a known element type, a sharding that fits the shape, and a size in bytes, whole
// and of every shard, that fits int64. INVALID_ARGUMENT if not.
absl::Status Validate(const ArraySpec& spec);

// One shard as an array of its own. REQUIRES: `spec` is valid and has this shard.
ArraySpec SingleShardSpec(const ArraySpec& spec, int shard);

// Elements and bytes in host memory of a dense array. INVALID_ARGUMENT on negative dims or overflow. 0 bytes for types without
// elements.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims);
absl::StatusOr<int64_t> DenseBytes(DType dtype, absl::Span<const int64_t> dims);

// Bytes of one shard in host memory. INVALID_ARGUMENT on rank mismatch, negative dims or overflow.
absl::StatusOr<int64_t> ShardHostBytes(const ArraySpec& spec, int shard);

}  // namespace pw::buffers
