#include "pathways/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "pathways/base/log_file.h"

namespace pw {
namespace {

LogLevel LevelFromEnvironment() {
  const char* value = std::getenv("PATHWAYS_LOG");
  const std::string_view level = value == nullptr ? "" : value;
  if (level == "debug") return LogLevel::kDebug;
  if (level == "warning") return LogLevel::kWarning;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& Lowest() {
  static std::atomic<LogLevel> lowest(LevelFromEnvironment());
  return lowest;
}

std::atomic<int>& Destination() {
  static std::atomic<int> file(STDERR_FILENO);
  return file;
}

// "/long/path/pathways/worker/x.cc" -> "worker/x.cc"
std::string_view ShortName(std::string_view file) {
  const size_t at = file.rfind("/pathways/");
  return at == std::string_view::npos ? file : file.substr(at + 10);
}

}  // namespace

bool LogEnabled(LogLevel level) { return level >= Lowest().load(std::memory_order_relaxed); }
void SetLogLevel(LogLevel level) { Lowest() = level; }

// The former file stays open: another thread may be writing to it.
bool LogTo(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0) Destination() = file;
  return file >= 0;
}

LogLine::LogLine(LogLevel level, const char* file, int line) {
  text_ << "DIWE"[static_cast<int>(level)] << ' ' << absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()) << ' '
        << ShortName(file) << ':' << line << "] ";
}

LogLine::~LogLine() {
  text_ << '\n';
  const std::string line = text_.str();
  // One write, so that lines of several processes with a common log do not mix.
  if (::write(Destination(), line.data(), line.size()) < 0) return;
}

void CheckFailed(const char* condition, const char* file, int line) {
  Destination() = STDERR_FILENO;  // so that the user sees why the process ends
  LogLine(LogLevel::kError, file, line).stream() << "internal error, please report: check failed: " << condition;
  std::abort();
}

}  // namespace pw
