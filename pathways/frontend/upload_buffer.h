// UploadBuffer: puts together an arriving host buffer in memory. Large buffers get memory that workers on this machine can map,
// others ordinary memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::frontend {

class UploadBuffer {
 public:
  // RESOURCE_EXHAUSTED if there is no memory. `session`: the owner's wire id.
  absl::Status Allocate(net::SharedMemoryFactory* factory, int64_t size, uint64_t session);
  size_t size() const { return shared_.has_value() ? shared_->size() : own_.size(); }
  // Appends the data of a chunk (chunks.h).
  absl::Status Take(grpc::ByteBuffer* chunk);
  size_t received() const { return received_; }
  Bytes Freeze() &&;

 private:
  std::optional<net::SharedMemory> shared_;
  AlignedBytes own_{0};
  size_t received_ = 0;
  std::vector<iovec> pieces_;
};

}  // namespace pw::frontend
