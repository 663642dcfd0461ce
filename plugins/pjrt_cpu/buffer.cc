// Buffers: their properties, and reading their contents.
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "plugins/pjrt_cpu/handles.h"
#include "xla/layout_util.h"
#include "xla/literal.h"
#include "xla/primitive_util.h"
#include "xla/shape_util.h"

namespace pw::pjrt_cpu {

PJRT_Buffer* WrapBuffer(PJRT_Client* client, std::unique_ptr<xla::PjRtBuffer> xla_buffer, int64_t bytes) {
  auto* buffer = new PJRT_Buffer;
  buffer->client = client;
  buffer->device = client->device_of.at(xla_buffer->device());
  if (bytes < 0) bytes = static_cast<int64_t>(xla_buffer->GetOnDeviceSizeInBytes().value_or(0));
  buffer->buffer = std::move(xla_buffer);
  buffer->counted_bytes.store(bytes, std::memory_order_relaxed);
  buffer->device->usage.Add(bytes);
  return buffer;
}

namespace {

absl::Status Deleted(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " called on deleted or donated buffer"));
}

PJRT_Error* UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args* args) {
  PJRT_Buffer* buffer = args->buffer;
  absl::MutexLock lock(&buffer->mu);
  if (!buffer->unpadded_dims.has_value()) {
    PW_ASSIGN_OR_RETURN(buffer->unpadded_dims, buffer->buffer->logical_dimensions());
  }
  args->unpadded_dims = buffer->unpadded_dims->data();
  args->num_dims = buffer->unpadded_dims->size();
  return nullptr;
}

PJRT_Error* DynamicDimensions(PJRT_Buffer_DynamicDimensionIndices_Args* args) {
  PJRT_Buffer* buffer = args->buffer;
  absl::MutexLock lock(&buffer->mu);
  if (!buffer->dynamic_dims.has_value()) {
    std::vector<size_t>& dims = buffer->dynamic_dims.emplace();
    const absl::Span<const bool> dynamic = buffer->buffer->is_dynamic_dimension();
    for (size_t i = 0; i < dynamic.size(); ++i) {
      if (dynamic[i]) dims.push_back(i);
    }
  }
  args->dynamic_dim_indices = buffer->dynamic_dims->data();
  args->num_dynamic_dims = buffer->dynamic_dims->size();
  return nullptr;
}

PJRT_Error* MemoryLayout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  PJRT_Buffer* buffer = args->buffer;
  absl::MutexLock lock(&buffer->mu);
  if (buffer->layout == nullptr) buffer->layout = std::make_unique<LayoutData>(buffer->buffer->layout()->xla_layout());
  args->layout = buffer->layout->view;
  return nullptr;
}

// Returns the shape for the host, in the host's layout or else the buffer's. Never packed: on the host, an int4 takes a byte.
absl::StatusOr<xla::Shape> HostShape(PJRT_Buffer_ToHostBuffer_Args* args) {
  xla::PjRtBuffer* buffer = args->src->buffer.get();
  absl::StatusOr<xla::Shape> shape =
      buffer->has_dynamic_dimensions() ? buffer->logical_on_device_shape() : buffer->on_device_shape();
  if (!shape.ok()) return shape;
  xla::Layout layout = xla::LayoutUtil::MakeLayout(shape->layout().minor_to_major());
  if (args->host_layout != nullptr) {
    absl::StatusOr<xla::Layout> wanted = FromMemoryLayout(*args->host_layout, shape->element_type(), shape->dimensions());
    if (!wanted.ok()) return wanted.status();
    layout = *std::move(wanted);
  }
  xla::Shape host = xla::ShapeUtil::MakeShape(shape->element_type(), shape->dimensions());
  *host.mutable_layout() = std::move(layout);
  return host;
}

// Up to this size, the copy takes a tenth of the time of XLA's own read, which wakes a thread of its pool.
constexpr size_t kReadAtOnce = 64 << 10;

// Copies small existing contents at once. Does nothing and returns false if XLA's own read must copy them. It must if they have
// failed or do not exist yet, if their order is not that of `wanted`, or if they are packed on the device.
bool ReadAtOnce(xla::PjRtBuffer& buffer, const xla::Shape& wanted, void* into) {
  const size_t bytes = xla::ShapeUtil::ByteSizeOfElements(wanted);
  if (bytes > kReadAtOnce || buffer.has_dynamic_dimensions() || xla::primitive_util::IsSubByteNonPredType(wanted.element_type()))
    return false;
  if (wanted.layout().minor_to_major() != buffer.on_device_shape().layout().minor_to_major()) return false;
  const xla::Future<> ready = buffer.GetReadyFuture();
  if (!ready.IsReady() || !ready.Await().ok()) return false;
  const auto held = buffer.AcquireExternalReference();
  if (!held.ok()) return false;
  std::memcpy(into, (*held)->OpaqueDeviceMemoryDataPointer(), bytes);
  return true;
}

// XLA's own read on CPU ignores the literal's layout and copies the bytes in the buffer's order. This reorders them for other
// layouts.
xla::Future<> Read(xla::PjRtBuffer& buffer, const std::shared_ptr<xla::MutableBorrowingLiteral>& into) {
  const xla::Shape& wanted = into->shape();
  const auto order = buffer.on_device_shape().layout().minor_to_major();
  if (wanted.layout().minor_to_major() == order) return buffer.ToLiteral(into.get());
  xla::Shape as_it_lies = xla::ShapeUtil::MakeShape(wanted.element_type(), wanted.dimensions());
  *as_it_lies.mutable_layout() = xla::LayoutUtil::MakeLayout(order);
  auto copy = std::make_shared<xla::Literal>(as_it_lies);
  auto [promise, done] = xla::MakePromise<>();
  buffer.ToLiteral(copy.get()).OnReady([copy, into, promise = std::move(promise)](const absl::Status& status) mutable {
    promise.Set(status.ok() ? into->CopyFrom(*copy) : status);
  });
  return std::move(done);
}

PJRT_Error* ToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  if (args->src->buffer->IsDeleted()) return MakeError(Deleted("ToHostBuffer()"));
  PW_ASSIGN_OR_RETURN(const xla::Shape shape, HostShape(args));
  const size_t needed = xla::ShapeUtil::ByteSizeOfElements(shape);
  if (args->dst == nullptr) {
    args->dst_size = needed;
    return nullptr;
  }
  if (args->dst_size < needed) {
    return MakeError(absl::InvalidArgumentError(
        absl::StrCat("the destination holds ", args->dst_size, " bytes, the buffer's contents need ", needed)));
  }
  if (ReadAtOnce(*args->src->buffer, shape, args->dst)) {
    args->event = WrapFuture(xla::Future<>(absl::OkStatus()));
    return nullptr;
  }
  auto literal = std::make_shared<xla::MutableBorrowingLiteral>(static_cast<const char*>(args->dst), shape);
  xla::Future<> done = Read(*args->src->buffer, literal);
  done.OnReady([literal](const absl::Status&) {});  // the copy writes through it
  args->event = WrapFuture(std::move(done));
  return nullptr;
}

PJRT_Error* CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args* args) {
  auto [promise, future] = xla::MakePromise<void*>();
  args->callback_data = new xla::Promise<void*>(std::move(promise));
  args->future_ready_callback = [](PJRT_Buffer_CopyRawToHostFuture_Callback_Args* ready) {
    std::unique_ptr<xla::Promise<void*>> owned(static_cast<xla::Promise<void*>*>(ready->callback_data));
    if (ready->error_code == PJRT_Error_Code_OK) {
      owned->Set(ready->dst);
    } else {
      owned->Set(MakeStatus(ready->error_code, ready->error_message, ready->error_message_size));
    }
  };
  args->event = WrapFuture(args->buffer->buffer->CopyRawToHostFuture(std::move(future), args->offset, args->transfer_size));
  return nullptr;
}

// Copies a buffer to another device. XLA's own copy moves the bytes unchanged and calls the result row-major. For other layouts,
// this reads and writes the bytes unchanged, into a buffer of the same layout.
absl::StatusOr<std::unique_ptr<xla::PjRtBuffer>> CopyTo(xla::PjRtBuffer& source, xla::PjRtMemorySpace* space) {
  const xla::Shape& shape = source.on_device_shape();
  if (!shape.IsArray() || xla::LayoutUtil::IsMonotonicWithDim0Major(shape.layout())) return source.CopyToMemorySpace(space);
  const xla::PjRtClient::ShapeSpec spec{shape.element_type(),
                                        xla::DimensionVector(shape.dimensions().begin(), shape.dimensions().end())};
  const std::optional<xla::Layout> layout = xla::LayoutUtil::MakeLayout(shape.layout().minor_to_major());
  auto made = space->client()->CreateBuffersForAsyncHostToDevice({spec}, absl::MakeConstSpan(&layout, 1), space);
  if (!made.ok()) return made.status();
  std::shared_ptr<xla::PjRtClient::AsyncHostToDeviceTransferManager> manager = *std::move(made);
  std::unique_ptr<xla::PjRtBuffer> copy = manager->RetrieveBuffer(0);
  xla::Shape as_it_lies = xla::ShapeUtil::MakeShape(shape.element_type(), shape.dimensions());
  *as_it_lies.mutable_layout() = *layout;
  auto contents = std::make_shared<xla::Literal>(as_it_lies);
  source.ToLiteral(contents.get()).OnReady([contents, manager](absl::Status status) {
    if (status.ok()) status = manager->TransferLiteralToBuffer(0, *contents, [contents, manager] {});
    if (!status.ok()) manager->SetBufferError(0, status);
  });
  return copy;
}

PJRT_Error* CopyToDevice(PJRT_Buffer_CopyToDevice_Args* args) {
  if (args->buffer->buffer->IsDeleted()) return MakeError(Deleted("CopyToDevice()"));
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, args->dst_device->device->default_memory_space());
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> copy, CopyTo(*args->buffer->buffer, space));
  args->dst_buffer = WrapBuffer(args->dst_device->client, std::move(copy));
  return nullptr;
}

PJRT_Error* CopyToMemory(PJRT_Buffer_CopyToMemory_Args* args) {
  if (args->buffer->buffer->IsDeleted()) return MakeError(Deleted("CopyToMemory()"));
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> copy, CopyTo(*args->buffer->buffer, Own(args->dst_memory)->memory));
  args->dst_buffer = WrapBuffer(Own(args->dst_memory)->client, std::move(copy));
  return nullptr;
}

PJRT_Error* Donate(PJRT_Buffer_DonateWithControlDependency_Args* args) {
  auto [promise, future] = xla::MakePromise<>();
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> taken,
                      args->buffer->buffer->DonateWithControlDependency(std::move(future)));
  args->callback_data = new xla::Promise<>(std::move(promise));
  args->dependency_ready_callback = [](PJRT_Buffer_DonateWithControlDependency_Callback_Args* ready) {
    std::unique_ptr<xla::Promise<>> owned(static_cast<xla::Promise<>*>(ready->callback_data));
    owned->Set(MakeStatus(ready->error_code, ready->error_message, ready->error_message_size));
  };
  args->out_buffer = WrapBuffer(args->buffer->client, std::move(taken));
  args->buffer->Uncount();
  return nullptr;
}

// Waits until the buffer's memory exists. XLA may allocate it when the producer runs, and aborts if asked for its address
// earlier. So entries that return a pointer wait for the contents. They return the contents' error unchanged.
absl::Status AwaitMemory(PJRT_Buffer* buffer) { return buffer->buffer->GetReadyFuture().Await(); }

PJRT_Error* UnsafePointer(PJRT_Buffer_UnsafePointer_Args* args) {
  PW_RETURN_IF_ERROR(AwaitMemory(args->buffer));
  PW_ASSIGN_OR_RETURN(args->buffer_pointer, args->buffer->client->client->UnsafeBufferPointer(args->buffer->buffer.get()));
  return nullptr;
}

PJRT_Error* OpaquePointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args) {
  PW_RETURN_IF_ERROR(AwaitMemory(args->buffer));
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer::ExternalReference> reference,
                      args->buffer->buffer->AcquireExternalReference());
  args->device_memory_ptr = reference->OpaqueDeviceMemoryDataPointer();
  return nullptr;
}

PJRT_Error* IncreaseReferences(PJRT_Buffer_IncreaseExternalReferenceCount_Args* args) {
  PW_RETURN_IF_ERROR(AwaitMemory(args->buffer));
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer::ExternalReference> reference,
                      args->buffer->buffer->AcquireExternalReference());
  absl::MutexLock lock(&args->buffer->mu);
  args->buffer->external_references.push_back(std::move(reference));
  return nullptr;
}

PJRT_Error* DecreaseReferences(PJRT_Buffer_DecreaseExternalReferenceCount_Args* args) {
  std::unique_ptr<xla::PjRtBuffer::ExternalReference> dropped;  // freed outside the lock
  absl::MutexLock lock(&args->buffer->mu);
  if (args->buffer->external_references.empty()) {
    return MakeError(absl::InvalidArgumentError("the buffer has no external reference to give back"));
  }
  dropped = std::move(args->buffer->external_references.back());
  args->buffer->external_references.pop_back();
  return nullptr;
}

PJRT_Error* SizeInBytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  PW_ASSIGN_OR_RETURN(args->on_device_size_in_bytes, args->buffer->buffer->GetOnDeviceSizeInBytes());
  return nullptr;
}

void FillQueries(PJRT_Api* api) {
  api->PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* args) -> PJRT_Error* {
    args->type = ToBufferType(args->buffer->buffer->element_type());
    return nullptr;
  };
  api->PJRT_Buffer_Dimensions = [](PJRT_Buffer_Dimensions_Args* args) -> PJRT_Error* {
    const absl::Span<const int64_t> dims = args->buffer->buffer->dimensions();
    args->dims = dims.data();
    args->num_dims = dims.size();
    return nullptr;
  };
  api->PJRT_Buffer_UnpaddedDimensions = UnpaddedDimensions;
  api->PJRT_Buffer_DynamicDimensionIndices = DynamicDimensions;
  api->PJRT_Buffer_GetMemoryLayout = MemoryLayout;
  api->PJRT_Buffer_OnDeviceSizeInBytes = SizeInBytes;
  api->PJRT_Buffer_Device = [](PJRT_Buffer_Device_Args* args) -> PJRT_Error* {
    args->device = args->buffer->device;
    return nullptr;
  };
  api->PJRT_Buffer_Memory = [](PJRT_Buffer_Memory_Args* args) -> PJRT_Error* {
    args->memory = args->buffer->client->memory_of.at(args->buffer->buffer->memory_space());
    return nullptr;
  };
  api->PJRT_Buffer_IsDeleted = [](PJRT_Buffer_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->buffer->buffer->IsDeleted();
    return nullptr;
  };
  api->PJRT_Buffer_IsOnCpu = [](PJRT_Buffer_IsOnCpu_Args* args) -> PJRT_Error* {
    args->is_on_cpu = args->buffer->buffer->IsOnCpu();
    return nullptr;
  };
}

}  // namespace

void FillBufferEntries(PJRT_Api* api) {
  FillQueries(api);
  api->PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) -> PJRT_Error* {
    if (args->buffer != nullptr) args->buffer->Uncount();
    delete args->buffer;
    return nullptr;
  };
  api->PJRT_Buffer_Delete = [](PJRT_Buffer_Delete_Args* args) -> PJRT_Error* {
    args->buffer->buffer->Delete();
    args->buffer->Uncount();
    return nullptr;
  };
  api->PJRT_Buffer_ReadyEvent = [](PJRT_Buffer_ReadyEvent_Args* args) -> PJRT_Error* {
    args->event = WrapFuture(args->buffer->buffer->GetReadyFuture());
    return nullptr;
  };
  api->PJRT_Buffer_CopyRawToHost = [](PJRT_Buffer_CopyRawToHost_Args* args) -> PJRT_Error* {
    args->event = WrapFuture(args->buffer->buffer->CopyRawToHost(args->dst, args->offset, args->transfer_size));
    return nullptr;
  };
  api->PJRT_Buffer_ToHostBuffer = ToHost;
  api->PJRT_Buffer_CopyRawToHostFuture = CopyRawToHostFuture;
  api->PJRT_Buffer_CopyToDevice = CopyToDevice;
  api->PJRT_Buffer_CopyToMemory = CopyToMemory;
  api->PJRT_Buffer_DonateWithControlDependency = Donate;
  api->PJRT_Buffer_UnsafePointer = UnsafePointer;
  api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer = OpaquePointer;
  api->PJRT_Buffer_IncreaseExternalReferenceCount = IncreaseReferences;
  api->PJRT_Buffer_DecreaseExternalReferenceCount = DecreaseReferences;
}

}  // namespace pw::pjrt_cpu
