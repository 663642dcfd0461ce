#include "pathways/device/pjrt/buffer.h"

#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/event.h"
#include "pathways/device/pjrt/packed.h"
#include "pathways/device/pjrt/types.h"

namespace pw::device::pjrt {
namespace {

int64_t Elements(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Dense, row-major.
struct RowMajor {
  explicit RowMajor(size_t rank) : minor_to_major(rank) {
    for (size_t i = 0; i < rank; ++i) minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
    layout = MakeArgs<PJRT_Buffer_MemoryLayout>(PJRT_Buffer_MemoryLayout_STRUCT_SIZE);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled = MakeArgs<PJRT_Buffer_MemoryLayout_Tiled>(PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE);
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = rank;
  }
  RowMajor(const RowMajor&) = delete;
  std::vector<int64_t> minor_to_major;
  PJRT_Buffer_MemoryLayout layout;
};

// Returns the offset of element 0 if some strides are negative.
int64_t FirstElementOffset(const HostArray& array) {
  int64_t offset = 0;
  if (!array.byte_strides.has_value()) return 0;
  for (size_t i = 0; i < array.dims.size(); ++i) {
    const int64_t stride = (*array.byte_strides)[i];
    if (stride < 0) offset += -stride * (array.dims[i] - 1);
  }
  return offset;
}

}  // namespace

Future<Unit> Buffer::Ready() {
  Promise<Unit> promise;
  Future<Unit> future = promise.future();
  // The callback keeps the cell, and with it the buffer, until the plugin has been asked.
  cell_->WhenSet([cell = cell_, promise = std::move(promise)](const Cell::Handle& handle) mutable {
    if (!handle.ok()) return promise.Set(handle.status());
    const Api& api = cell->client()->api();
    PW_PJRT_ARGS(args, PJRT_Buffer_ReadyEvent_Args);
    args.buffer = *handle;
    if (absl::Status status = api.Call(&PJRT_Api::PJRT_Buffer_ReadyEvent, &args); !status.ok()) return promise.Set(status);
    WhenReady(api, args.event, [promise = std::move(promise)](absl::Status status) mutable {
      if (status.ok()) return promise.Set(Unit{});
      promise.Set(std::move(status));
    });
  });
  return future;
}

Future<Bytes> Buffer::ToHost() {
  const size_t size = static_cast<size_t>(buffers::HostBytes(dtype_)) * static_cast<size_t>(Elements(dims_));
  if (size == 0) return Future<Bytes>::Ready(Bytes());
  Promise<Bytes> promise;
  Future<Bytes> future = promise.future();
  cell_->WhenSet([cell = cell_, size, rank = dims_.size(), promise = std::move(promise)](const Cell::Handle& handle) mutable {
    if (!handle.ok()) return promise.Set(handle.status());
    const Api& api = cell->client()->api();
    auto memory = std::make_shared<AlignedBytes>(size);
    RowMajor row_major(rank);
    PW_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
    args.src = *handle;
    args.host_layout = &row_major.layout;
    args.dst = memory->data();
    args.dst_size = size;
    if (absl::Status status = api.Call(&PJRT_Api::PJRT_Buffer_ToHostBuffer, &args); !status.ok()) return promise.Set(status);
    WhenReady(api, args.event, [memory, promise = std::move(promise)](absl::Status status) mutable {
      if (status.ok()) return promise.Set(std::move(*memory).Freeze());
      promise.Set(std::move(status));
    });
  });
  return future;
}

size_t Buffer::HostBytes() const {
  return static_cast<size_t>(buffers::HostBytes(dtype_)) * static_cast<size_t>(Elements(dims_));
}

Future<Unit> Buffer::CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) {
  if (size != HostBytes()) {
    return Future<Unit>::Ready(
        absl::InvalidArgumentError("the memory for a host copy has another size than the buffer's contents"));
  }
  if (size == 0) return Future<Unit>::Ready(Unit());
  Promise<Unit> promise;
  Future<Unit> future = promise.future();
  cell_->WhenSet([cell = cell_, out, size, owner = std::move(owner), rank = dims_.size(),
                  promise = std::move(promise)](const Cell::Handle& handle) mutable {
    if (!handle.ok()) return promise.Set(handle.status());
    const Api& api = cell->client()->api();
    RowMajor row_major(rank);
    PW_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
    args.src = *handle;
    args.host_layout = &row_major.layout;
    args.dst = out;
    args.dst_size = size;
    if (absl::Status status = api.Call(&PJRT_Api::PJRT_Buffer_ToHostBuffer, &args); !status.ok()) return promise.Set(status);
    WhenReady(api, args.event, [owner = std::move(owner), promise = std::move(promise)](absl::Status status) mutable {
      if (status.ok()) return promise.Set(Unit{});
      promise.Set(std::move(status));
    });
  });
  return future;
}

absl::Status Buffer::CheckRowMajor(PJRT_Buffer* handle) const {
  PW_PJRT_ARGS(args, PJRT_Buffer_GetMemoryLayout_Args);
  args.buffer = handle;
  PW_RETURN_IF_ERROR(cell_->client()->api().Call(&PJRT_Api::PJRT_Buffer_GetMemoryLayout, &args));
  bool row_major = args.layout.type == PJRT_Buffer_MemoryLayout_Type_Tiled && args.layout.tiled.num_tiles == 0 &&
                   args.layout.tiled.minor_to_major_size == dims_.size();
  for (size_t i = 0; row_major && i < dims_.size(); ++i)
    row_major = args.layout.tiled.minor_to_major[i] == static_cast<int64_t>(dims_.size() - 1 - i);
  return row_major ? absl::OkStatus() : absl::UnimplementedError("the contents are not laid out row by row");
}

absl::StatusOr<Bytes> Buffer::HostView() {
  const std::shared_ptr<const Client>& client = cell_->client();
  if (client->info().platform_name != "cpu" || PackedBits(dtype_) > 0)
    return absl::UnimplementedError("the contents do not lie in host memory as they are read");
  if (!cell_->is_set()) return absl::FailedPreconditionError("HostView of a buffer that is not ready");
  PW_ASSIGN_OR_RETURN(PJRT_Buffer* const handle, cell_->handle());
  PW_RETURN_IF_ERROR(CheckRowMajor(handle));
  PW_PJRT_ARGS(hold, PJRT_Buffer_IncreaseExternalReferenceCount_Args);
  hold.buffer = handle;
  PW_RETURN_IF_ERROR(client->api().Call(&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount, &hold));
  std::shared_ptr<const void> owner(handle, [cell = cell_](PJRT_Buffer* held) {
    PW_PJRT_ARGS(drop, PJRT_Buffer_DecreaseExternalReferenceCount_Args);
    drop.buffer = held;
    cell->client()->api().Call(&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount, &drop).IgnoreError();
  });
  PW_PJRT_ARGS(args, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args);
  args.buffer = handle;
  PW_RETURN_IF_ERROR(client->api().Call(&PJRT_Api::PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &args));
  return Bytes(std::move(owner), args.device_memory_ptr, HostBytes());
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> Buffer::CopyTo(int device, absl::string_view memory_kind) {
  const std::shared_ptr<const Client>& client = cell_->client();
  PW_ASSIGN_OR_RETURN(const Memory* memory, client->FindMemory(device, memory_kind));
  auto copy = std::make_shared<Cell>(client);
  cell_->WhenSet([source = cell_, copy, memory](const Cell::Handle& handle) {
    if (!handle.ok()) return copy->Set(handle.status());
    PW_PJRT_ARGS(args, PJRT_Buffer_CopyToMemory_Args);
    args.buffer = *handle;
    args.dst_memory = memory->handle;
    if (absl::Status status = source->client()->api().Call(&PJRT_Api::PJRT_Buffer_CopyToMemory, &args); !status.ok()) {
      return copy->Set(std::move(status));
    }
    copy->Set(args.dst_buffer);
  });
  // An error known already is returned at once, not as a buffer that fails later.
  if (copy->is_set() && !copy->handle().ok()) return copy->handle().status();
  return std::make_unique<Buffer>(std::move(copy), dtype_, dims_, device, memory->kind);
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> BufferFromHost(const std::shared_ptr<const Client>& client, HostArray array,
                                                             int device, absl::string_view memory_kind) {
  PW_ASSIGN_OR_RETURN(const Memory* memory, client->FindMemory(device, memory_kind));
  PW_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, ToPjrt(array.dtype));
  static constexpr char kNothing = 0;  // a valid address for arrays without elements
  PW_PJRT_ARGS(args, PJRT_Client_BufferFromHostBuffer_Args);
  args.client = client->handle();
  args.data = array.data.empty() ? static_cast<const void*>(&kNothing) : array.data.data() + FirstElementOffset(array);
  args.type = type;
  args.dims = array.dims.data();
  args.num_dims = array.dims.size();
  if (array.byte_strides.has_value()) {
    args.byte_strides = array.byte_strides->data();
    args.num_byte_strides = array.byte_strides->size();
  }
  args.host_buffer_semantics =
      array.exclusive ? PJRT_HostBufferSemantics_kMutableZeroCopy : PJRT_HostBufferSemantics_kImmutableZeroCopy;
  args.device = client->devices()[device].handle;
  args.memory = memory->handle;
  PW_RETURN_IF_ERROR(client->api().Call(&PJRT_Api::PJRT_Client_BufferFromHostBuffer, &args));
  auto buffer = std::make_unique<Buffer>(std::make_shared<Cell>(client, args.buffer), array.dtype, std::move(array.dims), device,
                                         memory->kind);
  // The bytes live until the runtime releases them; if it adopted them, that is when the buffer dies.
  WhenReady(client->api(), args.done_with_host_buffer, [data = std::move(array.data)](const absl::Status&) {});
  return buffer;
}

}  // namespace pw::device::pjrt
