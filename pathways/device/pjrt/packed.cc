#include "pathways/device/pjrt/packed.h"

#include <cstring>
#include <utility>

#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"

namespace pw::device::pjrt {
namespace {

using buffers::DType;

bool IsSigned(DType dtype) { return dtype == DType::kS4 || dtype == DType::kS2 || dtype == DType::kS1; }

}  // namespace

int PackedBits(DType dtype) {
  const int bits = buffers::DeviceBits(dtype);
  return bits < 8 ? bits : 0;
}

absl::StatusOr<Bytes> Unpack(DType dtype, const void* packed, int64_t elements) {
  const int bits = PackedBits(dtype), per_byte = 8 / bits;
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1), sign = static_cast<uint8_t>(1 << (bits - 1));
  const auto* in = static_cast<const uint8_t*>(packed);
  PW_ASSIGN_OR_RETURN(AlignedBytes out, TryAllocateHostBuffer(elements));
  for (int64_t i = 0; i < elements; ++i) {
    uint8_t value = in[i / per_byte] >> (i % per_byte * bits) & mask;
    if (IsSigned(dtype) && (value & sign) != 0) value |= static_cast<uint8_t>(~mask);
    out.data()[i] = value;
  }
  return std::move(out).Freeze();
}

void Pack(DType dtype, std::string_view unpacked, void* packed) {
  const int bits = PackedBits(dtype), per_byte = 8 / bits;
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
  auto* out = static_cast<uint8_t*>(packed);
  std::memset(out, 0, (unpacked.size() + per_byte - 1) / per_byte);
  for (size_t i = 0; i < unpacked.size(); ++i) {
    out[i / per_byte] |= static_cast<uint8_t>((static_cast<uint8_t>(unpacked[i]) & mask) << (i % per_byte * bits));
  }
}

}  // namespace pw::device::pjrt
