// Chunks: messages of the form { bytes data = 1; }, in which host buffers travel, without copying the data twice.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"

namespace pw::frontend {

// Copies the data of `message` to `out`, at most `room` bytes. Returns their number; INVALID_ARGUMENT if the message does not
// parse or has more.
absl::StatusOr<size_t> TakeChunk(grpc::ByteBuffer* message, uint8_t* out, size_t room);
// Finds the places of the data of `message`, valid as long as `message`. Returns the number of bytes; the same errors.
absl::StatusOr<size_t> FindChunk(grpc::ByteBuffer* message, size_t room, std::vector<iovec>* pieces);
// Makes a message with this data, which is not copied.
grpc::ByteBuffer MakeChunk(Bytes data);

}  // namespace pw::frontend
