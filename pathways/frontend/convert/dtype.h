// Conversion of element types between ours (numbered as xla.PrimitiveType) and IFRT's, which number some types differently.
#pragma once

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt.pb.h"
#include "pathways/buffers/dtype.h"

namespace pw::frontend {

// UNIMPLEMENTED, naming the number, if this server does not know it.
absl::StatusOr<buffers::DType> DTypeFromProto(const xla::ifrt::DTypeProto& proto);
// Returns KIND_UNSPECIFIED for types that IFRT does not have.
xla::ifrt::DTypeProto DTypeToProto(buffers::DType dtype);

}  // namespace pw::frontend
