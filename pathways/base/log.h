// Logging: lines to standard error, "I 12:01:33.412 worker/execute/program_executor.cc:41] text". A log line never stands in for an error that
// should reach the user. PATHWAYS_LOG=debug|info|warning|error chooses the lowest level shown (default info).
#pragma once

#include <sstream>

namespace pw {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool LogEnabled(LogLevel level);
void SetLogLevel(LogLevel level);

// One log line. The destructor writes it in one piece.
class LogLine {
 public:
  LogLine(LogLevel level, const char* file, int line);
  ~LogLine();
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

// Prints the condition and aborts. For bugs in our code only: external input never reaches a PW_CHECK.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace pw

#define PW_LOG_AT_(level)         \
  if (!::pw::LogEnabled(level)) { \
  } else                          \
    ::pw::LogLine(level, __FILE__, __LINE__).stream()
#define PW_LOG_DEBUG PW_LOG_AT_(::pw::LogLevel::kDebug)
#define PW_LOG_INFO PW_LOG_AT_(::pw::LogLevel::kInfo)
#define PW_LOG_WARNING PW_LOG_AT_(::pw::LogLevel::kWarning)
#define PW_LOG_ERROR PW_LOG_AT_(::pw::LogLevel::kError)
#define PW_CHECK(condition)                                              \
  do {                                                                   \
    if (!(condition)) ::pw::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
