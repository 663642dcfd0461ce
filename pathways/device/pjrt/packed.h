// Packed elements: XLA packs types narrower than a byte, several elements in a byte, the first in the lowest bits; on the host each element
// takes a byte. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/dtype.h"

namespace pw::device::pjrt {

// Returns the bits of an element that shares its byte with others; 0: elements have whole bytes.
int PackedBits(buffers::DType dtype);

// Expands packed elements to one byte each; signed types keep their sign. RESOURCE_EXHAUSTED: there is no memory. REQUIRES:
// PackedBits(dtype) > 0.
absl::StatusOr<Bytes> Unpack(buffers::DType dtype, const void* packed, int64_t elements);

// Packs elements into as few bytes as they need. REQUIRES: PackedBits(dtype) > 0.
void Pack(buffers::DType dtype, std::string_view unpacked, void* packed);

}  // namespace pw::device::pjrt
