// The arithmetic of collectives between processes, for every element type that XLA:CPU reduces and for eight-bit floats.
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

// Returns a reduction. Its `into` is null if there is none: minimum and maximum of complex numbers, sub-byte types.
Reduction FindReduction(xla::PrimitiveType type, xla::ReductionKind kind);

}  // namespace pw::pjrt_cpu
