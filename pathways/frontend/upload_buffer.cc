#include "pathways/frontend/upload_buffer.h"

#include <utility>

#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/chunks.h"

namespace pw::frontend {

absl::Status UploadBuffer::Allocate(net::SharedMemoryFactory* factory, int64_t size, uint64_t session) {
  if (static_cast<size_t>(size) >= net::SharedMemoryFactory::kWorthwhileBytes) {
    if (auto shared = factory->Create(static_cast<size_t>(size), session); shared.ok()) {
      shared_ = *std::move(shared);
      return absl::OkStatus();
    }
  }
  PW_ASSIGN_OR_RETURN(own_, TryAllocateHostBuffer(size));
  return absl::OkStatus();
}

absl::Status UploadBuffer::Take(grpc::ByteBuffer* chunk) {
  if (!shared_.has_value()) {
    PW_ASSIGN_OR_RETURN(const size_t size, TakeChunk(chunk, own_.data() + received_, own_.size() - received_));
    received_ += size;
    return absl::OkStatus();
  }
  pieces_.clear();
  PW_ASSIGN_OR_RETURN(const size_t size, FindChunk(chunk, shared_->size() - received_, &pieces_));
  PW_RETURN_IF_ERROR(shared_->Write(received_, pieces_));
  received_ += size;
  return absl::OkStatus();
}

Bytes UploadBuffer::Freeze() && { return shared_.has_value() ? std::move(*shared_).Freeze() : std::move(own_).Freeze(); }

}  // namespace pw::frontend
