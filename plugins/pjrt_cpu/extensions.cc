// The extensions for layouts and foreign functions.
#include <memory>
#include <string>
#include <utility>

#include "plugins/pjrt_cpu/handles.h"
#include "plugins/pjrt_cpu/programs/batch_partitioner.h"
#include "plugins/pjrt_cpu/versions/ffi.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();  // declared in a header of the wheel that needs LLVM's
}

struct PJRT_Layouts_SerializedLayout {
  std::string bytes;
};

namespace pw::pjrt_cpu {
namespace {

PJRT_Error* SerializeLayout(PJRT_Layouts_MemoryLayout_Serialize_Args* args) {
  auto* out = new PJRT_Layouts_SerializedLayout{args->layout->layout.ToString()};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_layout = out;
  args->serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* layout) { delete layout; };
  return nullptr;
}

PJRT_Error* ClientLayout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::PrimitiveType type, FromBufferType(args->type));
  PW_ASSIGN_OR_RETURN(xla::Layout layout, args->client->client->GetDefaultLayout(type, {args->dims, args->num_dims}));
  args->layout = new PJRT_Layouts_MemoryLayout{std::move(layout)};
  return nullptr;
}

PJRT_Error* TopologyLayout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::PrimitiveType type, FromBufferType(args->type));
  PW_ASSIGN_OR_RETURN(xla::Layout layout,
                      args->topology_description->topology->GetDefaultLayout(type, {args->dims, args->num_dims}));
  args->layout = new PJRT_Layouts_MemoryLayout{std::move(layout)};
  return nullptr;
}

PJRT_Error* BufferLayout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args) {
  args->layout = new PJRT_Layouts_MemoryLayout{args->buffer->buffer->layout()->xla_layout()};
  return nullptr;
}

PJRT_Error* OutputLayouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args) {
  const ProgramFacts& facts = *args->executable->facts;
  args->num_outputs = facts.output_layout_pointers.size();
  args->layouts = const_cast<PJRT_Layouts_MemoryLayout**>(facts.output_layout_pointers.data());
  return nullptr;
}

PJRT_Error* RegisterType(PJRT_FFI_Type_Register_Args* args) {
  using Registry = versions::FfiTypes;
  const absl::string_view name(args->type_name, args->type_name_size);
  Registry::TypeInfo info;
  if (args->type_info != nullptr) info.deleter = args->type_info->deleter;
  if (args->type_id != Registry::kUnknownTypeId.value()) {
    return MakeError(versions::RegisterType(name, Registry::TypeId(args->type_id), info));
  }
  PW_ASSIGN_OR_RETURN(const Registry::TypeId id, versions::AssignType(name, info));
  args->type_id = id.value();
  return nullptr;
}

PJRT_Error* AddUserData(PJRT_FFI_UserData_Add_Args* args) {
  if (args->context == nullptr) return MakeError(absl::InvalidArgumentError("the execute context is null"));
  return MakeError(
      args->context->context->ffi_context().Insert(versions::FfiTypes::TypeId(args->user_data.type_id), args->user_data.data));
}

// Converts an FFI error to a status and frees it.
absl::Status TakeError(XLA_FFI_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  const XLA_FFI_Api* api = xla::ffi::GetXlaFfiApi();
  absl::Status status = absl::InvalidArgumentError(versions::MessageOf(api, error));
  XLA_FFI_Error_Destroy_Args destroy{};
  destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  return status;
}

PJRT_Error* RegisterHandler(PJRT_FFI_Register_Handler_Args* args) {
  XLA_FFI_Handler_Register_Args registration{};
  registration.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  registration.name = {args->target_name, args->target_name_size};
  registration.platform = {args->platform_name, args->platform_name_size};
  registration.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(args->handler);
  registration.traits = static_cast<XLA_FFI_Handler_Traits>(args->traits);
  return MakeError(TakeError(xla::ffi::GetXlaFfiApi()->XLA_FFI_Handler_Register(&registration)));
}

}  // namespace

absl::Status RegisterFfiHandler(absl::string_view name, XLA_FFI_Handler* handler, bool in_batches) {
  XLA_FFI_Handler_Register_Args registration{};
  registration.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
  registration.name = {name.data(), name.size()};
  registration.platform = {"Host", 4};
  registration.bundle.execute = handler;
  if (in_batches) RegisterBatchPartitionable(name);
  return TakeError(xla::ffi::GetXlaFfiApi()->XLA_FFI_Handler_Register(&registration));
}

PJRT_Extension_Base* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension result{};
    result.base = {PJRT_Layouts_Extension_STRUCT_SIZE, PJRT_Extension_Type_Layouts, nullptr};
    result.PJRT_Layouts_MemoryLayout_Destroy = [](PJRT_Layouts_MemoryLayout_Destroy_Args* args) -> PJRT_Error* {
      delete args->layout;
      return nullptr;
    };
    result.PJRT_Layouts_MemoryLayout_Serialize = SerializeLayout;
    result.PJRT_Layouts_PJRT_Client_GetDefaultLayout = ClientLayout;
    result.PJRT_Layouts_PJRT_Buffer_MemoryLayout = BufferLayout;
    result.PJRT_Layouts_PJRT_Topology_GetDefaultLayout = TopologyLayout;
    result.PJRT_Layouts_PJRT_Executable_GetOutputLayouts = OutputLayouts;
    return result;
  }();
  return &extension.base;
}

PJRT_Extension_Base* FfiExtension() {
  static PJRT_FFI_Extension extension = [] {
    PJRT_FFI_Extension result{};
    result.base = {PJRT_FFI_Extension_STRUCT_SIZE, PJRT_Extension_Type_FFI, nullptr};
    result.type_register = RegisterType;
    result.user_data_add = AddUserData;
    result.register_handler = RegisterHandler;
    return result;
  }();
  return &extension.base;
}

}  // namespace pw::pjrt_cpu
