// Errors of XLA at the C boundary (c_table/error.h), and the functions by which the files of this library register their parts.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugins/c_table/error.h"

namespace pw::pjrt_cpu {

using c_table::Error;
using c_table::SetText;

// XLA gives all values that depend on a failed buffer the code INTERNAL and a text with a preamble. Lasting() stores an error's
// code in its text, and MakeError() restores it from there: the host gets the code of the first cause.
absl::Status Lasting(const absl::Status& status);
PJRT_Error* MakeError(absl::Status status);

// Makes a lasting status from the three fields that argument structs carry.
absl::Status MakeStatus(PJRT_Error_Code code, const char* message, size_t message_size);

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
