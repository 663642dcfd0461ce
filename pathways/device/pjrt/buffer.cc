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

// Dense, the last dimension fastest.
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

// Where element 0 is when some strides are negative.
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

Buffer::Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle, DType dtype, Dims dims, int device,
               std::string memory_kind)
    : client_(std::move(client)),
      handle_(handle),
      dtype_(dtype),
      dims_(std::move(dims)),
      device_(device),
      memory_kind_(std::move(memory_kind)) {}

Buffer::~Buffer() {
  PW_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
  args.buffer = handle_;
  client_->api().Call(&PJRT_Api::PJRT_Buffer_Destroy, &args).IgnoreError();
}

Future<Unit> Buffer::Ready() {
  PW_PJRT_ARGS(args, PJRT_Buffer_ReadyEvent_Args);
  args.buffer = handle_;
  if (absl::Status status = client_->api().Call(&PJRT_Api::PJRT_Buffer_ReadyEvent, &args); !status.ok()) {
    return Future<Unit>::Ready(std::move(status));
  }
  return JoinEvents(client_->api(), {&args.event, 1});
}

size_t Buffer::HostBytes() const {
  return static_cast<size_t>(buffers::HostBytes(dtype_)) * static_cast<size_t>(Elements(dims_));
}

Future<Bytes> Buffer::ToHost() {
  const size_t size = HostBytes();
  if (size == 0) return Future<Bytes>::Ready(Bytes());
  auto memory = std::make_shared<AlignedBytes>(size);
  Promise<Bytes> promise;
  Future<Bytes> future = promise.future();
  CopyToHost(memory->data(), size, memory)
      .OnReady([memory, promise = std::move(promise)](const absl::StatusOr<Unit>& copied) mutable {
        if (copied.ok()) {
          promise.Set(std::move(*memory).Freeze());
        } else {
          promise.Set(copied.status());
        }
      });
  return future;
}

Future<Unit> Buffer::CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) {
  if (size != HostBytes()) {
    return Future<Unit>::Ready(absl::InvalidArgumentError("the memory for a host copy has another size than the buffer's contents"));
  }
  if (size == 0) return Future<Unit>::Ready(Unit());
  RowMajor row_major(dims_.size());
  PW_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
  args.src = handle_;
  args.host_layout = &row_major.layout;
  args.dst = out;
  args.dst_size = size;
  if (absl::Status status = client_->api().Call(&PJRT_Api::PJRT_Buffer_ToHostBuffer, &args); !status.ok()) {
    return Future<Unit>::Ready(std::move(status));
  }
  Promise<Unit> promise;
  Future<Unit> future = promise.future();
  WhenReady(client_->api(), args.event, [owner = std::move(owner), promise = std::move(promise)](absl::Status status) mutable {
    if (status.ok()) {
      promise.Set(Unit());
    } else {
      promise.Set(std::move(status));
    }
  });
  return future;
}

absl::Status Buffer::CheckRowMajor() {
  PW_PJRT_ARGS(args, PJRT_Buffer_GetMemoryLayout_Args);
  args.buffer = handle_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Buffer_GetMemoryLayout, &args));
  bool row_major = args.layout.type == PJRT_Buffer_MemoryLayout_Type_Tiled && args.layout.tiled.num_tiles == 0 &&
                   args.layout.tiled.minor_to_major_size == dims_.size();
  for (size_t i = 0; row_major && i < dims_.size(); ++i)
    row_major = args.layout.tiled.minor_to_major[i] == static_cast<int64_t>(dims_.size() - 1 - i);
  return row_major ? absl::OkStatus() : absl::UnimplementedError("the contents are not laid out row by row");
}

absl::StatusOr<Bytes> Buffer::HostView() {
  if (client_->info().platform_name != "cpu" || PackedBits(dtype_) > 0) return absl::UnimplementedError("the contents do not lie in host memory as they are read");
  PW_RETURN_IF_ERROR(CheckRowMajor());
  PW_PJRT_ARGS(hold, PJRT_Buffer_IncreaseExternalReferenceCount_Args);
  hold.buffer = handle_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount, &hold));
  std::shared_ptr<const void> owner(handle_, [client = client_](PJRT_Buffer* handle) {
    PW_PJRT_ARGS(drop, PJRT_Buffer_DecreaseExternalReferenceCount_Args);
    drop.buffer = handle;
    client->api().Call(&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount, &drop).IgnoreError();
  });
  PW_PJRT_ARGS(args, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args);
  args.buffer = handle_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &args));
  return Bytes(std::move(owner), args.device_memory_ptr, HostBytes());
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> Buffer::CopyTo(int device, absl::string_view memory_kind) {
  PW_ASSIGN_OR_RETURN(const Memory* memory, client_->FindMemory(device, memory_kind));
  PW_PJRT_ARGS(args, PJRT_Buffer_CopyToMemory_Args);
  args.buffer = handle_;
  args.dst_memory = memory->handle;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Buffer_CopyToMemory, &args));
  return std::make_unique<Buffer>(client_, args.dst_buffer, dtype_, dims_, device, memory->kind);
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> BufferFromHost(const std::shared_ptr<const Client>& client, HostArray array,
                                                             int device, absl::string_view memory_kind) {
  PW_ASSIGN_OR_RETURN(const Memory* memory, client->FindMemory(device, memory_kind));
  PW_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, ToPjrt(array.dtype));
  static constexpr char kNothing = 0;  // a place to point at when there is no element
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
  auto buffer = std::make_unique<Buffer>(client, args.buffer, array.dtype, std::move(array.dims), device, memory->kind);
  // The bytes live until the runtime lets go of them, which is when the buffer dies if it adopted them.
  WhenReady(client->api(), args.done_with_host_buffer, [data = std::move(array.data)](const absl::Status&) {});
  return buffer;
}

}  // namespace pw::device::pjrt
