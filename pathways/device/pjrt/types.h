// Element types, the PJRT way and ours.
#pragma once

#include "absl/status/statusor.h"
#include "pathways/buffers/dtype.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::device::pjrt {

// UNIMPLEMENTED for types that this version of PJRT has no number for.
absl::StatusOr<PJRT_Buffer_Type> ToPjrt(buffers::DType dtype);
// kInvalid for numbers that we do not know.
buffers::DType FromPjrt(PJRT_Buffer_Type type);

}  // namespace pw::device::pjrt
