// Byte strides of client host buffers: computes the size of a strided buffer, and converts it to and from dense row-major bytes.
//
// A strided buffer is the smallest region of memory that its elements span. With negative strides, element [0, ..., 0] is not at its
// start. All input here comes from clients: sizes are checked before memory is allocated.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

struct StridedExtent {
  int64_t bytes = 0;   // size of the region; 0 without elements
  int64_t origin = 0;  // offset of element [0, ..., 0] in it

  friend bool operator==(const StridedExtent&, const StridedExtent&) = default;
};

// Returns the region that the elements span. INVALID_ARGUMENT if the ranks differ, a dimension is negative, the type has no elements
// (element_bytes 0) or a number overflows.
absl::StatusOr<StridedExtent> SpannedRegion(int element_bytes, absl::Span<const int64_t> dims,
                                            absl::Span<const int64_t> byte_strides);

// Returns the size of the region into which an array is read with these strides. INVALID_ARGUMENT as above, and if most of the region would be
// gaps: a host fills all of it, so the strides of two elements could take any part of its memory.
absl::StatusOr<int64_t> BytesToRead(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides);

// Returns true if the strides are equivalent to those of a dense row-major array. Strides of dimensions of size 1 are ignored; an array
// without elements is dense.
bool IsDense(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides);

// Returns the elements of a strided buffer in dense row-major order; `data` itself if it is already dense. Strides of 0 repeat elements.
// INVALID_ARGUMENT as above, or if the size of `data` is not that of the region. RESOURCE_EXHAUSTED if the result would be larger than
// `max_bytes` or the system has no memory.
absl::StatusOr<Bytes> Densify(Bytes data, int element_bytes, absl::Span<const int64_t> dims,
                              absl::Span<const int64_t> byte_strides, int64_t max_bytes);

// The reverse of Densify; gaps are zero. INVALID_ARGUMENT also if elements would overlap because of a stride of 0.
absl::StatusOr<Bytes> Stridify(Bytes dense, int element_bytes, absl::Span<const int64_t> dims,
                               absl::Span<const int64_t> byte_strides, int64_t max_bytes);

}  // namespace pw::buffers
