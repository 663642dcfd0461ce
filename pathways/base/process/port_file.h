// Port files: a server writes its address (HOST:PORT, on the first line) for the process that started it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace pw {

// Writes `text` and a newline to `path` atomically (renames a file beside it into place).
absl::Status WritePortFile(const std::string& path, const std::string& text);

}  // namespace pw
