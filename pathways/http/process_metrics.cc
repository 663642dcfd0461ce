#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "pathways/base/process/open_files.h"
#include "pathways/http/metrics_text.h"

namespace pw::http {
namespace {

// Returns the fields of /proc/self/stat behind the process's name, which may be any text. Field 3 of proc(5) comes first.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(line.substr(name_end + 1), ' ', absl::SkipEmpty());
}

constexpr size_t kStartTime = 22 - 3, kResidentPages = 24 - 3;  // as proc(5) numbers them

// Returns the time at which the machine started, in seconds since 1970; 0 if it is not known.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double Seconds(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; }

}  // namespace

void AddProcessMetrics(MetricsText* text) {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    text->Counter("process_cpu_seconds_total", "Processor time of this process, user and system.")
        .Value(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  }
  const std::vector<std::string> fields = StatFields();
  double pages = 0, ticks = 0;
  if (fields.size() > kResidentPages && absl::SimpleAtod(fields[kResidentPages], &pages)) {
    text->Gauge("process_resident_memory_bytes", "Memory of this process in the machine's memory.")
        .Value(pages * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  }
  if (const double boot = BootTime(); boot > 0 && fields.size() > kStartTime && absl::SimpleAtod(fields[kStartTime], &ticks)) {
    text->Gauge("process_start_time_seconds", "The time at which this process started, in seconds since 1970.")
        .Value(boot + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  }
  text->Gauge("process_open_fds", "Open files and sockets of this process.").Value(static_cast<double>(CountOpenFiles()));
  if (const uint64_t limit = OpenFilesLimit(); limit > 0)
    text->Gauge("process_max_fds", "The most files and sockets that this process may open.").Value(static_cast<double>(limit));
}

}  // namespace pw::http
