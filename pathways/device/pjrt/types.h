// Converts between PJRT's element types and ours.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/buffers/dtype.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::device::pjrt {

// UNIMPLEMENTED for types that this version of PJRT lacks.
absl::StatusOr<PJRT_Buffer_Type> ToPjrt(buffers::DType dtype);
// kInvalid for unknown types.
buffers::DType FromPjrt(PJRT_Buffer_Type type);

}  // namespace pw::device::pjrt
