// Copies boxes of elements between host buffers of any strides: strided host buffers of clients, and the pieces of a reshard.
//
// A view is the address of element [0, ..., 0] and one byte stride for each dimension; strides may be negative, zero (source
// only) or of any order. Loops run in the order that suits the destination; dimensions that lie next to each other in both
// buffers are merged, so that dense copies are as few and as long memcpys as there can be; transposes go in blocks. Any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

// The core. REQUIRES: all three spans have one length, sizes are not negative, every element is inside its buffer, and no two
// elements of the destination, nor the two buffers, overlap.
void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_strides,
             uint8_t* to, absl::Span<const int64_t> to_strides);

// Row-major strides. REQUIRES: their products fit int64 (NumElements and DenseBytes say).
Dims DenseStrides(int element_bytes, absl::Span<const int64_t> dims);

// One region of a dense row-major array into another, of the same size. INVALID_ARGUMENT if a region is not inside its array.
absl::Status CopyDenseRegion(int element_bytes, const uint8_t* from, absl::Span<const int64_t> from_dims,
                             const Region& from_region, uint8_t* to, absl::Span<const int64_t> to_dims, const Region& to_region);

}  // namespace pw::buffers
