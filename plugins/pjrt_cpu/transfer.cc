// Buffers from host memory, views, and buffers made before their contents exist.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/pjrt_cpu/handles.h"
#include "xla/layout_util.h"
#include "xla/literal.h"
#include "xla/shape_util.h"

struct PJRT_FulfillAliasBufferCallback {
  xla::PjRtFulfillAliasBufferCallback callback;
};

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Client* client = nullptr;
  std::unique_ptr<xla::PjRtClient::AsyncHostToDeviceTransferManager> manager;
};

namespace pw::pjrt_cpu {
namespace {

using Semantics = xla::PjRtClient::HostBufferSemantics;

absl::StatusOr<Semantics> ToSemantics(PJRT_HostBufferSemantics semantics) {
  switch (semantics) {
    case PJRT_HostBufferSemantics_kImmutableOnlyDuringCall:
      return Semantics::kImmutableOnlyDuringCall;
    case PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes:
      return Semantics::kImmutableUntilTransferCompletes;
    case PJRT_HostBufferSemantics_kImmutableZeroCopy:
      return Semantics::kImmutableZeroCopy;
    case PJRT_HostBufferSemantics_kMutableZeroCopy:
      return Semantics::kMutableZeroCopy;
  }
  return absl::InvalidArgumentError(absl::StrCat("host buffer semantics ", static_cast<int>(semantics), " are unknown"));
}

// Returns the memory for a new buffer: the named one, else the device's default.
absl::StatusOr<xla::PjRtMemorySpace*> Space(PJRT_Memory* memory, PJRT_Device* device) {
  if (memory != nullptr) return Own(memory)->memory;
  if (device != nullptr) return device->device->default_memory_space();
  return absl::InvalidArgumentError("neither a memory nor a device was named for the new buffer");
}

// Returns the host's data in the dimension order of `layout`.
absl::StatusOr<xla::Literal> InOrder(const PJRT_Client_BufferFromHostBuffer_Args& args, xla::PrimitiveType type,
                                     const xla::Layout& layout) {
  xla::Shape shape = xla::ShapeUtil::MakeShape(type, absl::Span<const int64_t>(args.dims, args.num_dims));
  if (args.num_byte_strides != 0) {
    PJRT_Buffer_MemoryLayout strides{};
    strides.type = PJRT_Buffer_MemoryLayout_Type_Strides;
    strides.strides.byte_strides = args.byte_strides;
    strides.strides.num_byte_strides = args.num_byte_strides;
    absl::StatusOr<xla::Layout> host = FromMemoryLayout(strides, type, shape.dimensions());
    if (!host.ok()) return host.status();
    *shape.mutable_layout() = *std::move(host);
  }
  return xla::BorrowingLiteral(static_cast<const char*>(args.data), shape)
      .Relayout(xla::LayoutUtil::MakeLayout(layout.minor_to_major()));
}

PJRT_Error* FromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::PrimitiveType type, FromBufferType(args->type));
  PW_ASSIGN_OR_RETURN(const Semantics semantics, ToSemantics(args->host_buffer_semantics));
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, Space(args->memory, args->device));
  const absl::Span<const int64_t> dims(args->dims, args->num_dims);
  std::optional<absl::Span<const int64_t>> strides;
  if (args->num_byte_strides != 0) strides.emplace(args->byte_strides, args->num_byte_strides);
  std::optional<xla::Layout> layout;
  if (args->device_layout != nullptr) {
    PW_ASSIGN_OR_RETURN(layout, FromMemoryLayout(*args->device_layout, type, dims));
  }
  const void* data = args->data;
  Semantics kept = semantics;
  std::optional<xla::Literal> in_order;  // with a layout, XLA expects the bytes in their final order
  if (layout.has_value() && !xla::LayoutUtil::IsMonotonicWithDim0Major(*layout)) {
    PW_ASSIGN_OR_RETURN(in_order, InOrder(*args, type, *layout));
    data = in_order->untyped_data();
    kept = Semantics::kImmutableOnlyDuringCall;
    strides.reset();
  }
  auto [promise, future] = xla::MakePromise<>();
  auto done = [promise = std::move(promise)]() mutable { promise.Set(absl::OkStatus()); };
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> buffer,
                      args->client->client->BufferFromHostBuffer(data, type, dims, strides, kept, std::move(done), space,
                                                                 layout.has_value() ? &*layout : nullptr));
  args->buffer = WrapBuffer(args->client, std::move(buffer));
  args->done_with_host_buffer = WrapFuture(std::move(future));
  return nullptr;
}

PJRT_Error* CreateView(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::Shape shape, MakeShape(args->element_type, args->dims, args->num_dims, args->layout));
  PJRT_Memory* memory = PW_HAS_FIELD(args, memory) ? args->memory : nullptr;
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, Space(memory, args->device));
  std::function<void()> on_delete = [] {};  // XLA calls it in any case
  if (args->on_delete_callback != nullptr) {
    on_delete = [callback = args->on_delete_callback, data = args->device_buffer_ptr, user_arg = args->on_delete_callback_arg] {
      callback(data, user_arg);
    };
  }
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> buffer,
                      args->client->client->CreateViewOfDeviceBuffer(args->device_buffer_ptr, shape, space, on_delete));
  args->buffer = WrapBuffer(args->client, std::move(buffer));
  return nullptr;
}

PJRT_Error* CreateUninitialized(PJRT_Client_CreateUninitializedBuffer_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::Shape shape,
                      MakeShape(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout));
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, Space(args->memory, args->device));
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> buffer, args->client->client->CreateUninitializedBuffer(shape, space));
  args->buffer = WrapBuffer(args->client, std::move(buffer));
  return nullptr;
}

PJRT_Error* CreateError(PJRT_Client_CreateErrorBuffer_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::Shape shape,
                      MakeShape(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout));
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, Space(args->memory, nullptr));
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtBuffer> buffer,
                      args->client->client->CreateErrorBuffer(
                          MakeStatus(args->error_code, args->error_message, args->error_message_size), shape, space));
  args->buffer = WrapBuffer(args->client, std::move(buffer), 0);
  return nullptr;
}

PJRT_Error* CreateAlias(PJRT_Client_CreateAliasBuffer_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::Shape shape,
                      MakeShape(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout));
  PW_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * space, Space(args->memory, nullptr));
  PW_ASSIGN_OR_RETURN(auto pair, args->client->client->CreateAliasBuffer(shape, space));
  args->alias_buffer = WrapBuffer(args->client, std::move(pair.first), 0);  // its bytes are counted with its storage
  args->fulfill_alias_buffer_cb = new PJRT_FulfillAliasBufferCallback{std::move(pair.second)};
  return nullptr;
}

PJRT_Error* FulfillAlias(PJRT_Client_FulfillAliasBuffer_Args* args) {
  std::unique_ptr<PJRT_FulfillAliasBufferCallback> owned(args->fulfill_alias_buffer_cb);
  if (owned == nullptr) return MakeError(absl::InvalidArgumentError("the alias buffer's callback is null"));
  if (args->status_code == PJRT_Error_Code_OK) return MakeError(std::move(owned->callback)(args->buffer->buffer.get()));
  // The callback returns the error that it got; here the alias takes it, so the call succeeded.
  std::move(owned->callback)(MakeStatus(args->status_code, args->error_message, args->error_message_size)).IgnoreError();
  return nullptr;
}

PJRT_Error* CreateForTransfer(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  std::vector<xla::PjRtClient::ShapeSpec> specs;
  for (size_t i = 0; i < args->num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args->shape_specs[i];
    PW_ASSIGN_OR_RETURN(const xla::PrimitiveType type, FromBufferType(spec.element_type));
    specs.push_back({type, xla::DimensionVector(spec.dims, spec.dims + spec.num_dims)});
  }
  std::optional<std::vector<std::optional<xla::Layout>>> layouts;
  if (args->device_layouts != nullptr) {
    layouts.emplace(specs.size());
    for (size_t i = 0; i < args->num_device_layouts && i < specs.size(); ++i) {
      if (args->device_layouts[i] == nullptr) continue;
      PW_ASSIGN_OR_RETURN((*layouts)[i], FromMemoryLayout(*args->device_layouts[i], specs[i].element_type, specs[i].dims));
    }
  }
  std::optional<absl::Span<const std::optional<xla::Layout>>> view;
  if (layouts.has_value()) view.emplace(*layouts);
  PW_ASSIGN_OR_RETURN(auto manager,
                      args->client->client->CreateBuffersForAsyncHostToDevice(specs, view, Own(args->memory)->memory));
  args->transfer_manager = new PJRT_AsyncHostToDeviceTransferManager{args->client, std::move(manager)};
  return nullptr;
}

absl::Status CheckIndex(const PJRT_AsyncHostToDeviceTransferManager& manager, int index) {
  if (index >= 0 && static_cast<size_t>(index) < manager.manager->buffer_count()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer index ", index, " of a transfer with ", manager.manager->buffer_count(), " buffers"));
}

PJRT_Error* TransferData(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args) {
  PW_RETURN_IF_ERROR(CheckIndex(*args->transfer_manager, args->buffer_index));
  auto [promise, future] = xla::MakePromise<>();
  auto done = [promise = std::move(promise)]() mutable { promise.Set(absl::OkStatus()); };
  PW_RETURN_IF_ERROR(args->transfer_manager->manager->TransferRawDataToSubBuffer(
      args->buffer_index, args->data, args->offset, args->transfer_size, args->is_last_transfer, std::move(done)));
  args->done_with_h2d_transfer = WrapFuture(std::move(future));
  return nullptr;
}

PJRT_Error* TransferLiteral(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args* args) {
  PW_RETURN_IF_ERROR(CheckIndex(*args->transfer_manager, args->buffer_index));
  PW_ASSIGN_OR_RETURN(const xla::Shape shape,
                      MakeShape(args->shape_element_type, args->shape_dims, args->shape_num_dims, args->shape_layout));
  auto literal = std::make_unique<xla::BorrowingLiteral>(static_cast<const char*>(args->data), shape);
  const xla::LiteralSlice slice(*literal);
  auto [promise, future] = xla::MakePromise<>();
  auto done = [promise = std::move(promise), literal = std::move(literal)]() mutable { promise.Set(absl::OkStatus()); };
  PW_RETURN_IF_ERROR(args->transfer_manager->manager->TransferLiteralToBuffer(args->buffer_index, slice, std::move(done)));
  args->done_with_h2d_transfer = WrapFuture(std::move(future));
  return nullptr;
}

PJRT_Error* RetrieveBuffer(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  PW_RETURN_IF_ERROR(CheckIndex(*args->transfer_manager, args->buffer_index));
  args->buffer_out =
      WrapBuffer(args->transfer_manager->client, args->transfer_manager->manager->RetrieveBuffer(args->buffer_index));
  return nullptr;
}

PJRT_Error* BufferSize(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args) {
  PW_RETURN_IF_ERROR(CheckIndex(*args->transfer_manager, args->buffer_index));
  args->buffer_size = args->transfer_manager->manager->buffer_size(args->buffer_index);
  return nullptr;
}

PJRT_Error* SetBufferError(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args) {
  PW_RETURN_IF_ERROR(CheckIndex(*args->transfer_manager, args->buffer_index));
  args->transfer_manager->manager->SetBufferError(args->buffer_index,
                                                  MakeStatus(args->error_code, args->error_message, args->error_message_size));
  return nullptr;
}

PJRT_Error* AddMetadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args* args) {
  absl::flat_hash_map<std::string, std::string> metadata;
  for (size_t i = 0; i < args->num_metadata; ++i) {
    const PJRT_NamedValue& value = args->transfer_metadata[i];
    if (value.type != PJRT_NamedValue_kString) {
      return MakeError(absl::InvalidArgumentError("transfer metadata must be strings"));
    }
    metadata[std::string(value.name, value.name_size)] = std::string(value.string_value, value.value_size);
  }
  args->transfer_manager->manager->AddTransferMetadata(metadata);
  return nullptr;
}

void FillManagerEntries(PJRT_Api* api) {
  api->PJRT_AsyncHostToDeviceTransferManager_Destroy =
      [](PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) -> PJRT_Error* {
    delete args->transfer_manager;
    return nullptr;
  };
  api->PJRT_AsyncHostToDeviceTransferManager_Device = [](PJRT_AsyncHostToDeviceTransferManager_Device_Args* args) -> PJRT_Error* {
    args->device_out = args->transfer_manager->client->device_of.at(args->transfer_manager->manager->device());
    return nullptr;
  };
  api->PJRT_AsyncHostToDeviceTransferManager_BufferCount =
      [](PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args) -> PJRT_Error* {
    args->buffer_count = args->transfer_manager->manager->buffer_count();
    return nullptr;
  };
  api->PJRT_AsyncHostToDeviceTransferManager_TransferData = TransferData;
  api->PJRT_AsyncHostToDeviceTransferManager_TransferLiteral = TransferLiteral;
  api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = RetrieveBuffer;
  api->PJRT_AsyncHostToDeviceTransferManager_BufferSize = BufferSize;
  api->PJRT_AsyncHostToDeviceTransferManager_SetBufferError = SetBufferError;
  api->PJRT_AsyncHostToDeviceTransferManager_AddMetadata = AddMetadata;
}

}  // namespace

void FillTransferEntries(PJRT_Api* api) {
  FillManagerEntries(api);
  api->PJRT_Client_BufferFromHostBuffer = FromHost;
  api->PJRT_Client_CreateViewOfDeviceBuffer = CreateView;
  api->PJRT_Client_CreateUninitializedBuffer = CreateUninitialized;
  api->PJRT_Client_CreateErrorBuffer = CreateError;
  api->PJRT_Client_CreateAliasBuffer = CreateAlias;
  api->PJRT_Client_FulfillAliasBuffer = FulfillAlias;
  api->PJRT_Client_CreateBuffersForAsyncHostToDevice = CreateForTransfer;
}

}  // namespace pw::pjrt_cpu
