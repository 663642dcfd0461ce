// Element types between ours (numbered as xla.PrimitiveType) and IFRT's, which number some types differently.
#pragma once

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt.pb.h"
#include "pathways/buffers/dtype.h"

namespace pw::frontend {

// UNIMPLEMENTED for a number this server does not know, naming it.
absl::StatusOr<buffers::DType> DTypeFromProto(const xla::ifrt::DTypeProto& proto);
// KIND_UNSPECIFIED for types that IFRT cannot say.
xla::ifrt::DTypeProto DTypeToProto(buffers::DType dtype);

}  // namespace pw::frontend
