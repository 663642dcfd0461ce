// The destination of log lines (log.h).
#pragma once

#include <string>

namespace pw {

// Appends later log lines to this file instead of standard error, for libraries in programs that need standard error themselves.
// Returns false, and changes nothing, if the file cannot be opened. Any thread.
bool LogTo(const std::string& path);

}  // namespace pw
