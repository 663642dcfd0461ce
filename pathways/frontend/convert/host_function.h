// Conversion of Python functions (jax.experimental.colocated_python), which come as custom calls of one type.
#pragma once

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt_service.pb.h"
#include "pathways/session/host_function.h"

namespace pw::frontend {

// UNIMPLEMENTED for custom calls of other types, and for options that this server does not carry out.
absl::StatusOr<session::HostFunction> HostFunctionFromProto(const xla::ifrt::proxy::CompileRequest& request);

}  // namespace pw::frontend
