// Buffers: their properties, reading their contents, copies to other devices.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/buffers/array_spec.h"
#include "plugins/pathways_pjrt/convert.h"
#include "plugins/pathways_pjrt/handles.h"

namespace pw::pathways_pjrt {

PJRT_Memory* MemoryOf(const PJRT_Device* device, absl::string_view kind) {
  for (PJRT_Memory* memory : device->memories) {
    if (kind == Own(memory)->info->kind) return memory;
  }
  return device->memories.empty() ? nullptr : device->memories.front();
}

PJRT_Buffer* NewBuffer(PJRT_Device* device, PJRT_Memory* memory, std::shared_ptr<const Shape> shape, Place place) {
  auto* buffer = new PJRT_Buffer;
  buffer->client = device->client;
  buffer->device = device;
  buffer->memory = memory;
  buffer->shape = std::move(shape);
  buffer->place = std::move(place);
  return buffer;
}

namespace {

constexpr int64_t kCopiedInPlace = 1 << 20;  // longer contents are copied by PJRT_Client::copier, not by the session's thread

absl::Status Deleted(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " called on deleted or donated buffer"));
}

// Copies fetched contents to the host's memory.
Future<Unit> CopyTo(void* dst, size_t room, const Future<Bytes>& contents, Executor* executor) {
  auto promise = std::make_shared<Promise<Unit>>();
  Future<Unit> done = promise->future();
  contents.OnReady(executor, [dst, room, promise](const absl::StatusOr<Bytes>& bytes) {
    if (!bytes.ok()) return promise->Set(bytes.status());
    if (bytes->size() > room) {
      return promise->Set(absl::InvalidArgumentError(
          absl::StrCat("the destination holds ", room, " bytes, the buffer's contents need ", bytes->size())));
    }
    if (!bytes->empty()) std::memcpy(dst, bytes->data(), bytes->size());
    promise->Set(Unit());
  });
  return done;
}

PJRT_Error* ToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  const Helping help(args->src->client->helped);
  const Place place = args->src->get();
  if (place.array == nullptr) return NewError(Deleted("ToHostBuffer()"));
  const Shape& shape = *args->src->shape;
  PW_ENTRY_ASSIGN_OR_RETURN(const int64_t needed, buffers::DenseBytes(shape.dtype, shape.dims));
  PW_ENTRY_ASSIGN_OR_RETURN(auto strides, StridesOf(args->host_layout, shape.dtype, shape.dims));
  if (args->dst == nullptr) {
    args->dst_size = static_cast<size_t>(needed);
    return nullptr;
  }
  if (args->dst_size < static_cast<size_t>(needed)) {
    return NewError(absl::InvalidArgumentError(
        absl::StrCat("the destination holds ", args->dst_size, " bytes, the buffer's contents need ", needed)));
  }
  PJRT_Client* client = args->src->client;
  const Future<Bytes> contents = client->session->Fetch(SharedArray::Single(place)->array(), std::move(strides));
  args->event = NewEvent(CopyTo(args->dst, args->dst_size, contents, needed > kCopiedInPlace ? &client->copier : nullptr));
  return nullptr;
}

PJRT_Error* Copy(PJRT_Buffer* buffer, PJRT_Device* device, PJRT_Memory* memory, PJRT_Buffer** copy) {
  const Helping help(buffer->client->helped);
  const Place place = buffer->get();
  if (place.array == nullptr) return NewError(Deleted("CopyToMemory()"));
  if (memory == nullptr || device->client != buffer->client)
    return NewError(absl::InvalidArgumentError("a buffer cannot be copied to a device of another client"));
  client::Client* session = buffer->client->session.get();
  client::Array array = session->Copy(SharedArray::Single(place)->array(), {device->id()}, Own(memory)->info->kind);
  *copy = NewBuffer(device, memory, buffer->shape, {std::make_shared<SharedArray>(session, std::move(array), 1), 0});
  return nullptr;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  return Copy(args->buffer, args->dst_device, MemoryOf(args->dst_device, ""), &args->dst_buffer);
}

// Copies to a memory that several devices may have. The copy stays with the buffer's device if that is one of them.
PJRT_Error* CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  const auto& devices = Own(args->dst_memory)->devices;
  if (devices.empty()) return NewError(absl::InvalidArgumentError("no device has this memory"));
  const bool here = std::find(devices.begin(), devices.end(), args->buffer->device) != devices.end();
  return Copy(args->buffer, here ? args->buffer->device : devices.front(), args->dst_memory, &args->dst_buffer);
}

PJRT_Error* ReadyEvent(PJRT_Buffer_ReadyEvent_Args* args) {
  const Helping help(args->buffer->client->helped);
  const Place place = args->buffer->get();
  if (place.array == nullptr) return NewError(Deleted("GetReadyFuture()"));
  args->event = NewEvent(place.array->Ready());
  return nullptr;
}

PJRT_Error* MemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  const std::vector<int64_t>& order = args->buffer->shape->minor_to_major;
  args->layout = PJRT_Buffer_MemoryLayout{PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args->layout.tiled = PJRT_Buffer_MemoryLayout_Tiled{PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE};
  args->layout.tiled.minor_to_major = order.data();
  args->layout.tiled.minor_to_major_size = order.size();
  return nullptr;
}

PJRT_Error* SizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  const Shape& shape = *args->buffer->shape;
  PW_ENTRY_ASSIGN_OR_RETURN(const int64_t elements, buffers::NumElements(shape.dims));
  args->on_device_size_in_bytes = static_cast<size_t>((elements * buffers::DeviceBits(shape.dtype) + 7) / 8);
  return nullptr;
}

// Drops the buffer's reference to its array, outside the lock. The client's next request tells the cluster.
void Drop(PJRT_Buffer* buffer) {
  Place dropped;
  std::lock_guard<std::mutex> lock(buffer->mu);
  std::swap(dropped, buffer->place);
}

void FillShapes(PJRT_Api* api) {
  api->PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* args) -> PJRT_Error* {
    args->type = ToBufferType(args->buffer->shape->dtype);
    return nullptr;
  };
  api->PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) -> PJRT_Error* {
    args->dims = args->buffer->shape->dims.data();
    args->num_dims = args->buffer->shape->dims.size();
    return nullptr;
  };
  api->PJRT_Buffer_UnpaddedDimensions = [](PJRT_Buffer_UnpaddedDimensions_Args* args) -> PJRT_Error* {
    args->unpadded_dims = args->buffer->shape->dims.data();
    args->num_dims = args->buffer->shape->dims.size();
    return nullptr;
  };
  api->PJRT_Buffer_DynamicDimensionIndices = [](PJRT_Buffer_DynamicDimensionIndices_Args* args) -> PJRT_Error* {
    args->dynamic_dim_indices = nullptr;
    args->num_dynamic_dims = 0;
    return nullptr;
  };
  api->PJRT_Buffer_GetMemoryLayout = MemoryLayout;
  api->PJRT_Buffer_OnDeviceSizeInBytes = SizeInBytes;
}

void FillPlaces(PJRT_Api* api) {
  api->PJRT_Buffer_Device = [](PJRT_Buffer_Device_Args* args) -> PJRT_Error* {
    args->device = args->buffer->device;
    return nullptr;
  };
  api->PJRT_Buffer_Memory = [](PJRT_Buffer_Memory_Args* args) -> PJRT_Error* {
    args->memory = args->buffer->memory;
    return nullptr;
  };
  // False on every platform: the contents are not in this process's memory.
  api->PJRT_Buffer_IsOnCpu = [](PJRT_Buffer_IsOnCpu_Args* args) -> PJRT_Error* {
    args->is_on_cpu = false;
    return nullptr;
  };
  api->PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->buffer->get().array == nullptr;
    return nullptr;
  };
}

}  // namespace

void FillBufferEntries(PJRT_Api* api) {
  FillShapes(api);
  FillPlaces(api);
  api->PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) -> PJRT_Error* {
    delete args->buffer;
    return nullptr;
  };
  api->PJRT_Buffer_Delete = [](PJRT_Buffer_Delete_Args* args) -> PJRT_Error* {
    Drop(args->buffer);
    return nullptr;
  };
  api->PJRT_Buffer_ReadyEvent = ReadyEvent;
  api->PJRT_Buffer_ToHostBuffer = ToHost;
  api->PJRT_Buffer_CopyToDevice = CopyToDevice;
  api->PJRT_Buffer_CopyToMemory = CopyToMemory;
}

}  // namespace pw::pathways_pjrt
