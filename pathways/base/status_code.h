// Converts a status that arrives as a code and a text, from a message or a foreign API.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pw {

// A code that absl does not know becomes UNKNOWN. Code 0 is OK, and its text is ignored.
inline absl::Status StatusFrom(int code, absl::string_view message) {
  if (code == 0) return absl::OkStatus();
  const bool known = code > 0 && code <= 16;
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, message);
}

}  // namespace pw
