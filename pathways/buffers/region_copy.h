// Copies boxes of elements between host buffers of any strides. Used for clients' strided host buffers, for the pieces of a reshard and
// for what hosts send each other.
//
// A view is the address of element [0, ..., 0] and one byte stride for each dimension. Strides may be negative, zero (source only) or in
// any order. Loops run in the order that suits the destination. Dimensions that are contiguous in both buffers are merged, so that
// dense copies are few and long memcpys. Transposes are copied in blocks. Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

// Copies a box of `size` elements. REQUIRES: all three spans have one length, and sizes are not negative. Every element is inside
// its buffer. No two elements of the destination overlap, nor do the two buffers.
void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_strides,
             uint8_t* to, absl::Span<const int64_t> to_strides);

// Returns row-major strides. REQUIRES: their products fit int64 (checked by NumElements and DenseBytes).
Dims DenseStrides(int element_bytes, absl::Span<const int64_t> dims);

// Returns true if [start, start + size) lies inside an array of shape `dims`.
bool Contains(absl::Span<const int64_t> dims, absl::Span<const int64_t> start, absl::Span<const int64_t> size);

// If the box is contiguous in a dense row-major array, returns the index of its first element. REQUIRES: it lies inside.
std::optional<int64_t> ContiguousStart(absl::Span<const int64_t> dims, absl::Span<const int64_t> start,
                                       absl::Span<const int64_t> size);

// Copies the box `size` from dense row-major `from` at `from_start` to dense row-major `to` at `to_start`. REQUIRES: both boxes lie
// inside.
void CopyDenseBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_dims,
                  absl::Span<const int64_t> from_start, uint8_t* to, absl::Span<const int64_t> to_dims,
                  absl::Span<const int64_t> to_start);

// As CopyDenseBox. INVALID_ARGUMENT if a region is not inside its array or the sizes differ.
absl::Status CopyDenseRegion(int element_bytes, const uint8_t* from, absl::Span<const int64_t> from_dims,
                             const Region& from_region, uint8_t* to, absl::Span<const int64_t> to_dims, const Region& to_region);

}  // namespace pw::buffers
