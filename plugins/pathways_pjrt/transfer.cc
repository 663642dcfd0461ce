// Makes buffers from the host's memory, and from errors.
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"
#include "plugins/pathways_pjrt/convert.h"
#include "plugins/pathways_pjrt/handles.h"

namespace pw::pathways_pjrt {
namespace {

constexpr size_t kCopied = 1 << 20;  // shorter contents are copied: that costs less than reporting when they have been sent

// The device and memory of a new buffer.
struct Target {
  PJRT_Device* device;
  PJRT_Memory* memory;
};

absl::StatusOr<Target> TargetOf(PJRT_Device* device, PJRT_Memory* memory) {
  if (device == nullptr && memory != nullptr && !Own(memory)->devices.empty()) device = Own(memory)->devices.front();
  if (device == nullptr) return absl::InvalidArgumentError("neither a device nor the memory of one is given for a new buffer");
  if (memory == nullptr) memory = MemoryOf(device, "");
  if (memory == nullptr) return absl::InvalidArgumentError("the cluster names no memory of this device");
  return Target{device, memory};
}

absl::StatusOr<std::shared_ptr<Shape>> NewShape(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims) {
  auto shape = std::make_shared<Shape>();
  PW_ASSIGN_OR_RETURN(shape->dtype, FromBufferType(type));
  shape->dims.assign(dims, dims + num_dims);
  PW_RETURN_IF_ERROR(buffers::DenseBytes(shape->dtype, shape->dims).status());
  shape->minor_to_major = OrderOf("", num_dims);
  return shape;
}

buffers::ArraySpec SpecOf(const Target& target, const Shape& shape) {
  return {shape.dtype, shape.dims, buffers::Sharding::SingleDevice(target.device->id(), Own(target.memory)->info->kind), ""};
}

PJRT_Buffer* Wrap(const Target& target, std::shared_ptr<const Shape> shape, client::Array array) {
  auto shared = std::make_shared<SharedArray>(target.device->client->session.get(), std::move(array), 1);
  return NewBuffer(target.device, target.memory, std::move(shape), {std::move(shared), 0});
}

// The host's bytes, dense and row-major. `released` is set when the host may change them again.
struct HostBytes {
  Bytes bytes;
  Future<Unit> released;
};

HostBytes CopyOf(const void* data, size_t size) {
  return {Bytes::Copy({static_cast<const char*>(data), size}), Future<Unit>::Ready(Unit())};
}

HostBytes Borrow(const void* data, size_t size) {
  auto promise = std::make_shared<Promise<Unit>>();
  Future<Unit> released = promise->future();
  std::shared_ptr<const void> owner(data, [promise](const void*) { promise->Set(Unit()); });
  return {Bytes(std::move(owner), data, size), std::move(released)};
}

absl::StatusOr<HostBytes> Read(const PJRT_Client_BufferFromHostBuffer_Args& args, const Shape& shape) {
  PW_ASSIGN_OR_RETURN(const int64_t size, buffers::DenseBytes(shape.dtype, shape.dims));
  if (size == 0) return CopyOf("", 0);
  const int element = buffers::HostBytes(shape.dtype);
  const absl::Span<const int64_t> strides(args.byte_strides, args.num_byte_strides);
  if (args.byte_strides == nullptr || strides.empty() || buffers::IsDense(element, shape.dims, strides)) {
    const bool borrow = args.host_buffer_semantics != PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    return borrow && static_cast<size_t>(size) >= kCopied ? Borrow(args.data, size) : CopyOf(args.data, size);
  }
  PW_ASSIGN_OR_RETURN(const buffers::StridedExtent extent, buffers::SpannedRegion(element, shape.dims, strides));
  const Bytes spanned(nullptr, static_cast<const char*>(args.data) - extent.origin, extent.bytes);
  PW_ASSIGN_OR_RETURN(Bytes dense, buffers::Densify(spanned, element, shape.dims, strides, std::numeric_limits<int64_t>::max()));
  return HostBytes{std::move(dense), Future<Unit>::Ready(Unit())};
}

PJRT_Error* FromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  const Helping help(args->client->helped);
  PW_ENTRY_ASSIGN_OR_RETURN(const Target target, TargetOf(args->device, args->memory));
  PW_ENTRY_ASSIGN_OR_RETURN(std::shared_ptr<Shape> shape, NewShape(args->type, args->dims, args->num_dims));
  PW_ENTRY_RETURN_IF_ERROR(CheckRowMajor(args->device_layout, shape->dtype, shape->dims));
  PW_ENTRY_ASSIGN_OR_RETURN(HostBytes contents, Read(*args, *shape));
  client::Array array = args->client->session->Put(SpecOf(target, *shape), std::move(contents.bytes));
  args->done_with_host_buffer = NewEvent(std::move(contents.released));
  args->buffer = Wrap(target, std::move(shape), std::move(array));
  return nullptr;
}

PJRT_Error* FromError(PJRT_Client_CreateErrorBuffer_Args* args) {
  PW_ENTRY_ASSIGN_OR_RETURN(const Target target, TargetOf(nullptr, args->memory));
  PW_ENTRY_ASSIGN_OR_RETURN(std::shared_ptr<Shape> shape,
                            NewShape(args->shape_element_type, args->shape_dims, args->shape_num_dims));
  absl::Status error = StatusOf(args->error_code, args->error_message, args->error_message_size);
  if (error.ok()) return NewError(absl::InvalidArgumentError("the error of a new buffer is none"));
  client::Array array = args->client->session->PutError(SpecOf(target, *shape), std::move(error));
  args->buffer = Wrap(target, std::move(shape), std::move(array));
  return nullptr;
}

}  // namespace

void FillTransferEntries(PJRT_Api* api) {
  api->PJRT_Client_BufferFromHostBuffer = FromHost;
  api->PJRT_Client_CreateErrorBuffer = FromError;
}

}  // namespace pw::pathways_pjrt
