// The arithmetic of collectives between processes: every element type that XLA:CPU reduces, and the eight-bit floats besides.
#pragma once

#include <cstddef>

#include "xla/core/collectives/reduction_kind.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

struct Reduction {
  // sum[i] = sum[i] op next[i]
  void (*into)(char* sum, const char* next, size_t count) = nullptr;
  size_t width = 0;  // bytes of an element
};

// `into` is null for what has no such reduction: smallest and largest of complex numbers, sub-byte types.
Reduction FindReduction(xla::PrimitiveType type, xla::ReductionKind kind);

}  // namespace pw::pjrt_cpu
