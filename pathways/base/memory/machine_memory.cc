#include "pathways/base/memory/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace pw {
namespace {

constexpr char kGroups[] = "/sys/fs/cgroup";

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// Returns the cgroup 2 path, from the line "0::/path"; empty if there is none.
std::string GroupOf(const std::string& membership) {
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    if (absl::StartsWith(line, "0::/")) return std::string(line.substr(3));
  }
  return "";
}

}  // namespace

int64_t LimitOfGroup(const std::string& root, const std::string& membership, int64_t otherwise) {
  std::string group = GroupOf(membership);
  int64_t least = otherwise;
  while (!group.empty()) {
    int64_t limit = 0;  // "max" is no number
    if (absl::SimpleAtoi(Contents(root + group + "/memory.max"), &limit) && limit > 0) least = std::min(least, limit);
    group.resize(group.rfind('/'));
  }
  return least;
}

int64_t MemoryOfMachine() {
  static const int64_t of_machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  static const int64_t memory = LimitOfGroup(kGroups, Contents("/proc/self/cgroup"), of_machine);
  return memory;
}

int64_t AvailableMemory() {
  for (const absl::string_view line : absl::StrSplit(Contents("/proc/meminfo"), '\n')) {
    int64_t kib = 0;
    if (!absl::StartsWith(line, "MemAvailable:")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    return words.size() > 1 && absl::SimpleAtoi(words[1], &kib) ? kib << 10 : 0;
  }
  return 0;
}

}  // namespace pw
