// Packed elements: XLA keeps types narrower than a byte with several elements in a byte, the first in the lowest bits; on the host they
// take a byte each. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "pathways/base/bytes.h"
#include "pathways/buffers/dtype.h"

namespace pw::device::pjrt {

// How many bits an element takes where it shares its byte with others; 0: it has whole bytes of its own.
int PackedBits(buffers::DType dtype);

// A byte an element, of `elements` packed ones; those of signed types keep their sign. REQUIRES: PackedBits(dtype) > 0.
Bytes Unpack(buffers::DType dtype, const void* packed, int64_t elements);

// The reverse, into as many bytes as the elements need. REQUIRES: PackedBits(dtype) > 0.
void Pack(buffers::DType dtype, std::string_view unpacked, void* packed);

}  // namespace pw::device::pjrt
