// Element types. Their numbers are those of xla.PrimitiveType where XLA has the type; our messages carry the same numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace pw::buffers {

// clang-format off
enum class DType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2, kS16 = 3, kS32 = 4, kS64 = 5,
  kU8 = 6, kU16 = 7, kU32 = 8, kU64 = 9,
  kF16 = 10, kF32 = 11, kF64 = 12,
  kOpaque = 14,
  kC64 = 15, kBF16 = 16, kToken = 17, kC128 = 18,
  kF8E5M2 = 19, kF8E4M3FN = 20, kS4 = 21, kU4 = 22, kF8E4M3B11FNUZ = 23, kF8E5M2FNUZ = 24, kF8E4M3FNUZ = 25,
  kS2 = 26, kU2 = 27, kF8E4M3 = 28, kF8E3M4 = 29, kS1 = 30, kU1 = 31, kF4E2M1FN = 32, kF8E8M0FNU = 33,
  kF6E3M2FN = 35, kF6E2M3FN = 36,
  kString = 99,  // not a device type: string arrays live in host memory of the controller only
};
// clang-format on

// Returns the bytes of one element in host memory and on the wire, where types narrower than a byte take one byte per element.
// Returns 0 for types without elements (token, opaque, string).
int HostBytes(DType dtype);

// Returns the bits of one element in device memory, where types of 1, 2 and 4 bits are packed. Types of 6 bits take a whole byte.
int DeviceBits(DType dtype);

// Returns the short name: "f32", "s4", "bf16", ...
std::string_view Name(DType dtype);

// Returns INVALID_ARGUMENT for numbers that name no type.
absl::StatusOr<DType> DTypeFromNumber(int32_t number);

}  // namespace pw::buffers
