// A port file tells the process that started this one where it listens: the first line is HOST:PORT.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace pw {

// Writes `text` and a newline to `path` atomically (renames a file beside it into place).
absl::Status WritePortFile(const std::string& path, const std::string& text);

}  // namespace pw
