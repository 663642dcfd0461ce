// Small bridges to gRPC's types.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace pw::frontend {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// A message of no fields.
grpc::ByteBuffer EmptyMessage();

}  // namespace pw::frontend
