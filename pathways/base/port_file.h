// A port file tells whoever started us where we listen: the first line is HOST:PORT.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace pw {

// Writes `text` and a newline to `path`, complete from the moment the file is there (a file beside it is renamed into place).
absl::Status WritePortFile(const std::string& path, const std::string& text);

}  // namespace pw
