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

// Returns a text such as "f32[8,128] over 4 devices", for messages.
std::string ToString(const ArraySpec& spec);

// Returns the device numbers, such as "0,1,2", for messages; at most eight, then ",...".
std::string DeviceNumbers(absl::Span<const DeviceId> devices);

// Checks a spec that comes from outside. INVALID_ARGUMENT unless the element type is known, the sharding fits the shape, and the bytes of
// the array and of every shard fit int64.
absl::Status Validate(const ArraySpec& spec);

// Returns one shard as an array of its own. REQUIRES: `spec` is valid and has this shard.
ArraySpec SingleShardSpec(const ArraySpec& spec, int shard);

// Return the elements, and the bytes in host memory, of a dense array. INVALID_ARGUMENT on negative dims or overflow. Types without
// elements have 0 bytes.
absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims);
absl::StatusOr<int64_t> DenseBytes(DType dtype, absl::Span<const int64_t> dims);

// Returns the bytes of one shard in host memory. INVALID_ARGUMENT on rank mismatch, negative dims or overflow.
absl::StatusOr<int64_t> ShardHostBytes(const ArraySpec& spec, int shard);

}  // namespace pw::buffers
