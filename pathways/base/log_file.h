// The destination of log lines (log.h).
#pragma once

#include <string>

namespace pw {

// From now on, appends log lines to this file instead of standard error. For libraries in programs whose standard error is the user's. Returns false,
// and changes nothing, if the file cannot be opened. Any thread.
bool LogTo(const std::string& path);

}  // namespace pw
