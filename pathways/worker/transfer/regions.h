// Copies boxes of elements between regions of host memory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/buffers/dtype.h"
#include "pathways/device/device.h"

namespace pw::worker {

using device::Dims;

// Returns the number of elements. INVALID_ARGUMENT for negative dimensions or more than 2^62 bytes.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> dims);
// Returns the size in bytes of a dense array in host memory, with the same checks.
absl::StatusOr<int64_t> HostSize(buffers::DType dtype, absl::Span<const int64_t> dims);

// Returns the size in bytes of the smallest region that the byte strides span. INVALID_ARGUMENT if the ranks differ or the region is
// unreasonable.
absl::StatusOr<int64_t> StridedSize(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides);

// True if the strides are those of a dense row-major array.
bool IsRowMajor(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides);

// True if [start, start + size) lies inside `dims`.
bool Contains(absl::Span<const int64_t> dims, absl::Span<const int64_t> start, absl::Span<const int64_t> size);

// If the box is contiguous in a row-major array, returns the index of its first element. REQUIRES: it lies inside.
std::optional<int64_t> StretchStart(absl::Span<const int64_t> dims, absl::Span<const int64_t> start,
                                    absl::Span<const int64_t> size);

// Copies the box `size` from row-major `from` at `from_start` to row-major `to` at `to_start`. REQUIRES: both boxes lie inside.
void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_dims,
             absl::Span<const int64_t> from_start, uint8_t* to, absl::Span<const int64_t> to_dims,
             absl::Span<const int64_t> to_start);

// Copies the elements of a dense array into the given strides. REQUIRES: StridedSize has accepted them.
Bytes ToStrides(int element_bytes, absl::Span<const int64_t> dims, const Bytes& dense, absl::Span<const int64_t> byte_strides);

}  // namespace pw::worker
