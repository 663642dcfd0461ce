#include "pathways/base/process/processor_wait.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pw {
namespace {

constexpr double kHardlyAny = 0.1;  // of the time between two looks

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "4711 (a name) R 1 ...": the name may contain anything.
bool Runnable(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 && stat[name_end + 2] == 'R';
}

}  // namespace

std::map<int64_t, ProcessorWait::Thread> ProcessorWait::Threads() const {
  std::map<int64_t, Thread> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator it(absl::StrCat("/proc/", pid_, "/task"), error), end; !error && it != end;
       it.increment(error)) {
    int64_t id;
    if (!absl::SimpleAtoi(it->path().filename().string(), &id)) continue;
    Thread thread{Runnable(Contents(it->path() / "stat")), 0};
    std::istringstream(Contents(it->path() / "schedstat")) >> thread.used_ns;
    threads[id] = thread;
  }
  return threads;
}

bool ProcessorWait::Look(absl::Time now) {
  const absl::Duration between = now - std::exchange(last_, now);
  const std::map<int64_t, Thread> before = std::exchange(threads_, Threads());
  if (between == absl::InfiniteDuration()) return false;
  const double most_ns = kHardlyAny * absl::ToDoubleNanoseconds(between);
  for (const auto& [id, thread] : threads_) {
    const auto known = before.find(id);
    if (known == before.end() || !known->second.runnable || !thread.runnable) continue;
    if (static_cast<double>(thread.used_ns - known->second.used_ns) < most_ns) return true;
  }
  return false;
}

}  // namespace pw
