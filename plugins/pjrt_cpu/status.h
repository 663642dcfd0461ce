// Converts errors at the C boundary: absl::Status inside, PJRT_Error outside.
//
// A null PJRT_Error* is success. The host owns every error made here and frees it with PJRT_Error_Destroy.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/versions/c_api.h"

namespace pw::pjrt_cpu {

struct Error final : PJRT_Error {
  explicit Error(absl::Status why) : PJRT_Error{}, status(std::move(why)) {}
  absl::Status status;
};

// Returns the library's own object behind the pointer that the host holds.
inline Error* Own(PJRT_Error* error) { return static_cast<Error*>(error); }
inline const Error* Own(const PJRT_Error* error) { return static_cast<const Error*>(error); }

// XLA gives everything that depends on a failed buffer the code INTERNAL and a text with a preamble. Lasting() stores an error's code in
// its text, and MakeError() restores it from there: the host gets the code of the first cause.
absl::Status Lasting(const absl::Status& status);
PJRT_Error* MakeError(absl::Status status);

// Makes a lasting status from the three fields that argument structs carry.
absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t message_size);

// The table entry for unsupported functions.
template <typename Args>
PJRT_Error* Unimplemented(Args*) {
  return MakeError(absl::UnimplementedError(absl::StrCat("libpjrt_cpu does not implement ", __PRETTY_FUNCTION__)));
}

void FillErrorEntries(PJRT_Api* api);
void FillEventEntries(PJRT_Api* api);
void FillClientEntries(PJRT_Api* api);
void FillTopologyEntries(PJRT_Api* api);
void FillCompileEntries(PJRT_Api* api);
void FillExecutableEntries(PJRT_Api* api);
void FillExecuteEntries(PJRT_Api* api);
void FillBufferEntries(PJRT_Api* api);
void FillTransferEntries(PJRT_Api* api);

// Extensions; each returns its own static struct.
PJRT_Extension_Base* LayoutsExtension();
PJRT_Extension_Base* MemoryDescriptionsExtension();
PJRT_Extension_Base* FfiExtension();

// Registers the library's own FFI handlers with XLA. Once per process.
absl::Status RegisterHandlers();

// Whether the caller's struct has the field: hosts built against an older header omit the end of a struct.
#define PW_HAS_FIELD(args, field)                                                                             \
  ((args)->struct_size >=                                                                                     \
   static_cast<size_t>(reinterpret_cast<const char*>(&(args)->field) - reinterpret_cast<const char*>(args)) + \
       sizeof((args)->field))

#define PW_RETURN_IF_ERROR(expr)                              \
  do {                                                        \
    if (::absl::Status pw_status = (expr); !pw_status.ok()) { \
      return ::pw::pjrt_cpu::MakeError(std::move(pw_status)); \
    }                                                         \
  } while (false)

#define PW_CONCAT_INNER(a, b) a##b
#define PW_CONCAT(a, b) PW_CONCAT_INNER(a, b)
#define PW_ASSIGN_OR_RETURN(lhs, expr) PW_ASSIGN_OR_RETURN_IMPL(PW_CONCAT(pw_or_, __LINE__), lhs, expr)
#define PW_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)                            \
  auto tmp = (expr);                                                        \
  if (!tmp.ok()) return ::pw::pjrt_cpu::MakeError(std::move(tmp).status()); \
  lhs = *std::move(tmp)

}  // namespace pw::pjrt_cpu
