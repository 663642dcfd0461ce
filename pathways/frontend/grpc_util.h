// Small bridges to gRPC's types.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace pw::frontend {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The value of a binary header.
std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name);

// A message of no fields.
grpc::ByteBuffer EmptyMessage();

}  // namespace pw::frontend
