// Copies of device buffers in host memory, shared with other processes of this machine where possible.
#pragma once

#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/future.h"
#include "pathways/device/device.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::worker {

// Copies the buffer, dense and row-major, to shared memory if it is large enough and there is room, else to ordinary memory.
inline Future<Bytes> ToSharedHost(net::SharedMemoryFactory* factory, SessionId session, device::DeviceBuffer* buffer,
                                  size_t size) {
  if (size < net::SharedMemoryFactory::kWorthwhileBytes) return buffer->ToHost();
  absl::StatusOr<net::SharedMemory> memory = factory->Create(size, session.v);
  if (!memory.ok()) return buffer->ToHost();
  uint8_t* const data = memory->data();
  const Bytes whole = std::move(*memory).Freeze();
  Promise<Bytes> promise;
  Future<Bytes> future = promise.future();
  buffer->CopyToHost(data, size, whole.owner())
      .OnReady([whole, promise = std::move(promise)](const absl::StatusOr<Unit>& copied) mutable {
        if (copied.ok()) {
          promise.Set(whole);
        } else {
          promise.Set(copied.status());
        }
      });
  return future;
}

}  // namespace pw::worker
