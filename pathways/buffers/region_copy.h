// Copies boxes of elements between host buffers of any strides. Used for clients' strided host buffers, for the pieces of a
// reshard that hosts send each other, and for arrays in files.
//
// Byte strides may be negative, zero (source only) or in any order. Loops follow the order of the destination's memory.
// Dimensions that are contiguous in both buffers are merged, so that dense copies are few and long memcpys. Transposes are copied
// in blocks. "Dense" means row-major without gaps. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

// Copies a box of `size` elements. `from` and `to` are the addresses of the box's element [0, ..., 0]. REQUIRES: all three spans
// have one length, and sizes are not negative. Every element is inside its buffer. No two elements of the destination overlap,
// nor do the two buffers.
void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_strides,
             uint8_t* to, absl::Span<const int64_t> to_strides);

// Returns the byte strides of a dense array. REQUIRES: they fit int64 (DenseBytes checks that).
Dims DenseStrides(int element_bytes, absl::Span<const int64_t> dims);

// Returns true if [start, start + size) lies inside an array of shape `dims`.
bool Contains(absl::Span<const int64_t> dims, absl::Span<const int64_t> start, absl::Span<const int64_t> size);

// If the box is contiguous in a dense array, returns the index of its first element in the array. REQUIRES: it lies inside.
std::optional<int64_t> ContiguousStart(absl::Span<const int64_t> dims, absl::Span<const int64_t> start,
                                       absl::Span<const int64_t> size);

// Copies the box `size` at `from_start` of the dense array `from` to `to_start` of the dense array `to`. REQUIRES: both boxes lie
// inside.
void CopyDenseBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_dims,
                  absl::Span<const int64_t> from_start, uint8_t* to, absl::Span<const int64_t> to_dims,
                  absl::Span<const int64_t> to_start);

// CopyDenseBox, checked: INVALID_ARGUMENT if a region is not inside its array or the sizes differ.
absl::Status CopyDenseRegion(int element_bytes, const uint8_t* from, absl::Span<const int64_t> from_dims,
                             const Region& from_region, uint8_t* to, absl::Span<const int64_t> to_dims, const Region& to_region);

}  // namespace pw::buffers
