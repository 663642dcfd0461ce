// Assembly: where an arriving host buffer is put together: memory that workers of this machine can map, if it is large, else ordinary memory.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/net/shared_memory.h"

namespace pw::frontend {

class Assembly {
 public:
  // RESOURCE_EXHAUSTED: no memory. `session`: for whom, as the wire names it.
  absl::Status Allocate(net::SharedMemoryFactory* factory, int64_t size, uint64_t session);
  size_t size() const { return shared_.has_value() ? shared_->size() : own_.size(); }
  // Copies the data of a chunk behind what came before it (bulk/chunks.h).
  absl::Status Take(grpc::ByteBuffer* chunk);
  size_t received() const { return received_; }
  // Or else it is filled from a socket.
  net::Place place();
  Bytes Freeze() &&;

 private:
  std::optional<net::SharedMemory> shared_;
  AlignedBytes own_{0};
  size_t received_ = 0;
  std::vector<iovec> pieces_;
};

}  // namespace pw::frontend
