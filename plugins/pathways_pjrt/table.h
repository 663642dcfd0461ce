// What the files of this library share about the C table: its parts, and how entries return errors.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/c_table/error.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace pw::pathways_pjrt {

using c_table::NewError;

void FillEventEntries(PJRT_Api* api);
void FillClientEntries(PJRT_Api* api);
void FillDeviceEntries(PJRT_Api* api);
void FillTopologyEntries(PJRT_Api* api);
void FillExecutableEntries(PJRT_Api* api);
void FillExecuteEntries(PJRT_Api* api);
void FillBufferEntries(PJRT_Api* api);
void FillTransferEntries(PJRT_Api* api);

// Extensions; each returns its own static struct.
PJRT_Extension_Base* LayoutsExtension();
PJRT_Extension_Base* ShardingsExtension();

// UNIMPLEMENTED: what is missing through this door, as a subject ("a cost analysis"), and what to do.
absl::Status NotYet(absl::string_view what);

inline void SetText(absl::string_view text, const char** data, size_t* size) {
  *data = text.data();
  *size = text.size();
}

// Returns the status of the three fields that argument structs carry.
inline absl::Status StatusOf(PJRT_Error_Code code, const char* message, size_t size) {
  const absl::string_view text = message == nullptr ? absl::string_view() : absl::string_view(message, size);
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

}  // namespace pw::pathways_pjrt

// Early return from an entry.
#define PW_ENTRY_RETURN_IF_ERROR(expr)                                                                       \
  do {                                                                                                       \
    if (absl::Status pw_status = (expr); !pw_status.ok()) return pw::c_table::NewError(std::move(pw_status)); \
  } while (false)

#define PW_ENTRY_ASSIGN_OR_RETURN(lhs, expr) PW_ENTRY_ASSIGN_OR_RETURN_(PW_ENTRY_CONCAT_(pw_or_, __LINE__), lhs, expr)
#define PW_ENTRY_ASSIGN_OR_RETURN_(tmp, lhs, expr)                      \
  auto tmp = (expr);                                                    \
  if (!tmp.ok()) return pw::c_table::NewError(std::move(tmp).status()); \
  lhs = *std::move(tmp)
#define PW_ENTRY_CONCAT_(a, b) PW_ENTRY_CONCAT_2_(a, b)
#define PW_ENTRY_CONCAT_2_(a, b) a##b
