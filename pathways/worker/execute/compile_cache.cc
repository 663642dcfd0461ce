#include "pathways/worker/execute/compile_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "pathways/base/log.h"

namespace pw::worker {
namespace {
namespace fs = std::filesystem;

constexpr char kMagic[] = "pathways-program-1\n";
constexpr absl::string_view kSuffix = ".program";

// FNV-1a over 128 bits: the same on all builds and machines, and wide enough to avoid collisions.
struct Hash128 {
  unsigned __int128 state = (static_cast<unsigned __int128>(0x6c62272e07bb0142ULL) << 64) | 0x62b821756295c58dULL;
  void Add(absl::string_view bytes) {
    constexpr unsigned __int128 kPrime = (static_cast<unsigned __int128>(1) << 88) | 0x13b;
    for (unsigned char c : bytes) state = (state ^ c) * kPrime;
  }
  // Includes the length, so that adjacent fields stay distinct.
  void AddField(absl::string_view bytes) {
    Add(absl::StrCat(bytes.size(), ":"));
    Add(bytes);
  }
  std::string Hex() const {
    return absl::StrCat(absl::Hex(static_cast<uint64_t>(state >> 64), absl::kZeroPad16),
                        absl::Hex(static_cast<uint64_t>(state), absl::kZeroPad16));
  }
};

std::string Checksum(absl::string_view bytes) {
  Hash128 hash;
  hash.Add(bytes);
  return hash.Hex();
}

// The placement of a program over several processes. The processes' addresses change at every start, so each is replaced by the index of
// its first use.
std::string PatternOf(const std::vector<device::Position>& positions) {
  std::string pattern;
  std::vector<std::string> seen = {""};
  for (const device::Position& position : positions) {
    const auto at = std::find(seen.begin(), seen.end(), position.process);
    absl::StrAppend(&pattern, at - seen.begin(), ".", position.device, ",");
    if (at == seen.end()) seen.push_back(position.process);
  }
  return pattern;
}

}  // namespace

std::string CompileCache::Key(const device::CompileRequest& request, const device::RuntimeInfo& runtime) const {
  Hash128 hash;
  hash.AddField(machine_);
  hash.AddField(runtime.platform_name);
  hash.AddField(runtime.platform_version);
  hash.AddField(runtime.xla_version);
  hash.AddField(request.format);
  hash.AddField(request.program);
  hash.AddField(request.options);
  hash.AddField(absl::StrCat(request.num_replicas, "x", request.num_partitions, "/", absl::StrJoin(request.devices, ","), "/",
                             request.host_callbacks));
  hash.AddField(PatternOf(request.positions));
  return hash.Hex();
}

std::string CompileCache::PathOf(const std::string& key) const { return absl::StrCat(folder_, "/", key, kSuffix); }

std::optional<std::string> CompileCache::Read(const std::string& key) const {
  if (!enabled()) return std::nullopt;
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  constexpr size_t kHead = sizeof(kMagic) - 1 + 32;
  if (bytes.size() < kHead || bytes.compare(0, sizeof(kMagic) - 1, kMagic) != 0 ||
      bytes.substr(sizeof(kMagic) - 1, 32) != Checksum(absl::string_view(bytes).substr(kHead))) {
    PW_LOG_WARNING << "the compile cache's entry " << PathOf(key) << " is damaged; it will be replaced";
    Remove(key);
    return std::nullopt;
  }
  std::error_code ignored;
  fs::last_write_time(PathOf(key), fs::file_time_type::clock::now(), ignored);  // marks it as recently used
  return bytes.substr(kHead);
}

void CompileCache::Write(const std::string& key, const std::string& value) const {
  if (!enabled()) return;
  static std::atomic<uint64_t> serial{0};
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string temporary = absl::StrCat(PathOf(key), ".", getpid(), ".", serial.fetch_add(1), ".tmp");
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << kMagic << Checksum(value) << value;
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(temporary, PathOf(key), error);
  if (error) {
    PW_LOG_WARNING << "cannot write to the compile cache " << folder_ << ": " << error.message();
    std::error_code ignored;
    fs::remove(temporary, ignored);
    return;
  }
  Trim();
}

void CompileCache::Remove(const std::string& key) const {
  std::error_code ignored;
  fs::remove(PathOf(key), ignored);
}

void CompileCache::Trim() const {
  struct Entry {
    fs::file_time_type used;
    int64_t size;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another process may trim at the same time
    if (it->path().extension() != std::string(kSuffix)) continue;
    Entry entry{it->last_write_time(gone), static_cast<int64_t>(it->file_size(gone)), it->path()};
    if (gone) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  if (total <= limit_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) break;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.size;
  }
}

}  // namespace pw::worker
