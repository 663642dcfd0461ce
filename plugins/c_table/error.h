// Errors at the C boundary of our plugins: absl::Status inside, PJRT_Error outside.
//
// A null PJRT_Error* is success. The host owns every error made here and frees it with PJRT_Error_Destroy.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/c_table/version.h"

namespace pw::c_table {

struct Error final : PJRT_Error {
  explicit Error(absl::Status why) : PJRT_Error{}, status(std::move(why)) {}
  absl::Status status;
};

// Returns the library's own object behind the pointer that the host holds.
inline Error* Own(PJRT_Error* error) { return static_cast<Error*>(error); }
inline const Error* Own(const PJRT_Error* error) { return static_cast<const Error*>(error); }

inline PJRT_Error* NewError(absl::Status status) { return status.ok() ? nullptr : new Error(std::move(status)); }

// Makes a status of the three fields that argument structs carry. Both enumerations have the same values by definition.
inline absl::Status StatusOf(PJRT_Error_Code code, const char* message, size_t size) {
  const absl::string_view text = message == nullptr ? absl::string_view() : absl::string_view(message, size);
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

// Sets the two fields in which an argument struct returns a text.
inline void SetText(absl::string_view text, const char** data, size_t* size) {
  *data = text.data();
  *size = text.size();
}

void FillErrorEntries(PJRT_Api* api);

}  // namespace pw::c_table

// True if the caller's struct has the field: hosts built against an older header omit the end of a struct.
#define PW_HAS_FIELD(args, field)                                                                             \
  ((args)->struct_size >=                                                                                     \
   static_cast<size_t>(reinterpret_cast<const char*>(&(args)->field) - reinterpret_cast<const char*>(args)) + \
       sizeof((args)->field))
