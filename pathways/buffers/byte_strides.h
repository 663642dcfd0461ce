// Byte strides of client host buffers: how large the buffer must be, and to dense row-major bytes and back.
//
// A strided buffer is the smallest region of memory that its elements span. Element [0, ..., 0] is not at its start where strides
// are negative. All input here comes from clients: sizes are checked before memory is taken.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

struct StridedExtent {
  int64_t bytes = 0;   // of the region; 0 without elements
  int64_t origin = 0;  // of element [0, ..., 0] in it

  friend bool operator==(const StridedExtent&, const StridedExtent&) = default;
};

// INVALID_ARGUMENT if ranks differ, a dimension is negative, the type has no elements (element_bytes 0) or a number overflows.
absl::StatusOr<StridedExtent> SpannedRegion(int element_bytes, absl::Span<const int64_t> dims,
                                            absl::Span<const int64_t> byte_strides);

// True if the strides are those of a dense row-major array, as far as anyone can tell: strides of dimensions of size 1 do not
// matter.
bool IsDense(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides);

// The elements of a strided buffer, dense row-major: `data` itself if it is that already. Strides of 0 repeat elements.
// INVALID_ARGUMENT as above, and if `data` is not as large as the region. RESOURCE_EXHAUSTED if the result would be larger than
// `max_bytes`.
absl::StatusOr<Bytes> Densify(Bytes data, int element_bytes, absl::Span<const int64_t> dims,
                              absl::Span<const int64_t> byte_strides, int64_t max_bytes);

// The reverse; gaps are zero. INVALID_ARGUMENT also if elements would overlap because of a stride of 0.
absl::StatusOr<Bytes> Stridify(Bytes dense, int element_bytes, absl::Span<const int64_t> dims,
                               absl::Span<const int64_t> byte_strides, int64_t max_bytes);

}  // namespace pw::buffers
