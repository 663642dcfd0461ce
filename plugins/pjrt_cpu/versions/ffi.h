// Names of the foreign function interface that differ between tensorflow-cpu 2.21 (version 0.2) and newer wheels.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/type_registry.h"

namespace pw::pjrt_cpu::versions {

using FfiTypes = xla::ffi::TypeRegistry;

#if XLA_FFI_API_MINOR > 2

inline absl::Status RegisterType(absl::string_view name, FfiTypes::TypeId id, FfiTypes::TypeInfo info) {
  return FfiTypes::RegisterTypeId(name, id, info);
}
inline absl::StatusOr<FfiTypes::TypeId> AssignType(absl::string_view name, FfiTypes::TypeInfo info) {
  return FfiTypes::AssignTypeId(name, info);
}
inline absl::string_view MessageOf(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_GetDetails_Args details{};
  details.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  details.error = error;
  api->XLA_FFI_Error_GetDetails(&details);
  return details.message;
}

#else

inline absl::Status RegisterType(absl::string_view name, FfiTypes::TypeId id, FfiTypes::TypeInfo info) {
  return FfiTypes::RegisterExternalTypeId(name, id, info);
}
inline absl::StatusOr<FfiTypes::TypeId> AssignType(absl::string_view name, FfiTypes::TypeInfo info) {
  return FfiTypes::AssignExternalTypeId(name, info);
}
inline absl::string_view MessageOf(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  XLA_FFI_Error_GetMessage_Args message{};
  message.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  message.error = error;
  api->XLA_FFI_Error_GetMessage(&message);
  return message.message;
}

#endif

}  // namespace pw::pjrt_cpu::versions
