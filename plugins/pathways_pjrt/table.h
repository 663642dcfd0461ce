// The parts of the C table, and macros by which entries return errors, for all files of this library.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/c_table/error.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace pw::pathways_pjrt {

using c_table::NewError;
using c_table::SetText;
using c_table::StatusOf;

void FillEventEntries(PJRT_Api* api);
void FillClientEntries(PJRT_Api* api);
void FillDeviceEntries(PJRT_Api* api);
void FillTopologyEntries(PJRT_Api* api);
void FillCompileEntries(PJRT_Api* api);
void FillExecutableEntries(PJRT_Api* api);
void FillExecuteEntries(PJRT_Api* api);
void FillBufferEntries(PJRT_Api* api);
void FillTransferEntries(PJRT_Api* api);

// Extensions; each returns its own static struct.
PJRT_Extension_Base* LayoutsExtension();
PJRT_Extension_Base* ShardingsExtension();

// Returns UNIMPLEMENTED with a remedy. `what` is the missing feature of this door, as a subject ("a cost analysis").
absl::Status NotYet(absl::string_view what);

}  // namespace pw::pathways_pjrt

// Early return from an entry.
#define PW_ENTRY_RETURN_IF_ERROR(expr)                                                                        \
  do {                                                                                                        \
    if (absl::Status pw_status = (expr); !pw_status.ok()) return pw::c_table::NewError(std::move(pw_status)); \
  } while (false)

#define PW_ENTRY_ASSIGN_OR_RETURN(lhs, expr) PW_ENTRY_ASSIGN_OR_RETURN_(PW_ENTRY_CONCAT_(pw_or_, __LINE__), lhs, expr)
#define PW_ENTRY_ASSIGN_OR_RETURN_(tmp, lhs, expr)                      \
  auto tmp = (expr);                                                    \
  if (!tmp.ok()) return pw::c_table::NewError(std::move(tmp).status()); \
  lhs = *std::move(tmp)
#define PW_ENTRY_CONCAT_(a, b) PW_ENTRY_CONCAT_2_(a, b)
#define PW_ENTRY_CONCAT_2_(a, b) a##b
