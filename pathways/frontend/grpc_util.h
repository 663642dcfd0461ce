// Conversions to gRPC's types.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace pw::frontend {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// Returns a message without fields.
grpc::ByteBuffer EmptyMessage();

}  // namespace pw::frontend
