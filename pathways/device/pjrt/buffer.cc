#include "pathways/device/pjrt/buffer.h"

#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/event.h"
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

Future<Bytes> Buffer::ToHost() {
  const size_t size = static_cast<size_t>(buffers::HostBytes(dtype_)) * static_cast<size_t>(Elements(dims_));
  if (size == 0) return Future<Bytes>::Ready(Bytes());
  auto memory = std::make_shared<AlignedBytes>(size);
  RowMajor row_major(dims_.size());
  PW_PJRT_ARGS(args, PJRT_Buffer_ToHostBuffer_Args);
  args.src = handle_;
  args.host_layout = &row_major.layout;
  args.dst = memory->data();
  args.dst_size = size;
  if (absl::Status status = client_->api().Call(&PJRT_Api::PJRT_Buffer_ToHostBuffer, &args); !status.ok()) {
    return Future<Bytes>::Ready(std::move(status));
  }
  Promise<Bytes> promise;
  Future<Bytes> future = promise.future();
  WhenReady(client_->api(), args.event, [memory, promise = std::move(promise)](absl::Status status) mutable {
    if (status.ok()) {
      promise.Set(std::move(*memory).Freeze());
    } else {
      promise.Set(std::move(status));
    }
  });
  return future;
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
