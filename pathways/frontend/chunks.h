// Chunks: messages of the form { bytes data = 1; }, in which host buffers travel, without copying the data twice.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw::frontend {

// Copies the data of `message` to `out`, at most `room` bytes. The number of bytes copied; INVALID_ARGUMENT if the message does not parse
// or there is more.
absl::StatusOr<size_t> TakeChunk(grpc::ByteBuffer* message, uint8_t* out, size_t room);
// The places where the data of `message` lies, valid as long as it is; the same errors.
absl::StatusOr<size_t> FindChunk(grpc::ByteBuffer* message, size_t room, std::vector<iovec>* pieces);
// The message with this data, which is not copied.
grpc::ByteBuffer MakeChunk(Bytes data);

}  // namespace pw::frontend
