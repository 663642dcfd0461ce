// Small bridges to gRPC's types.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <sys/uio.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw::frontend {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The value of a binary header.
std::optional<std::string> FindHeader(const grpc::ServerContextBase& context, std::string_view name);

// A message of no fields.
grpc::ByteBuffer EmptyMessage();

// --- messages of the form { bytes data = 1; }, without copying the data twice ---

// Copies the data of `message` to `out`, at most `room` bytes. The number of bytes copied; INVALID_ARGUMENT if the message does not parse
// or there is more.
absl::StatusOr<size_t> TakeChunk(grpc::ByteBuffer* message, uint8_t* out, size_t room);
// The places where the data of `message` lies, valid as long as it is; the same errors.
absl::StatusOr<size_t> FindChunk(grpc::ByteBuffer* message, size_t room, std::vector<iovec>* pieces);
// The message with this data, which is not copied.
grpc::ByteBuffer MakeChunk(Bytes data);

}  // namespace pw::frontend
