#include "pathways/worker/execute/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "pathways/base/log.h"
#include "pathways/base/sha256.h"
#include "pathways/net/sockets/socket.h"

namespace pw::worker {
namespace {
namespace fs = std::filesystem;

constexpr char kMagic[] = "pathways-program-2\n";
constexpr size_t kChecksumBytes = 32;
constexpr absl::string_view kSuffix = ".program", kTemporary = ".tmp";
// A temporary file of this age was left by a process that was killed.
constexpr auto kAbandoned = std::chrono::hours(1);

// Adds a field with its length, so that adjacent fields stay distinct.
void AddField(absl::string_view bytes, std::string* text) { absl::StrAppend(text, bytes.size(), ":", bytes); }

std::string Digest(absl::string_view bytes) { return Sha256({bytes.data(), bytes.size()}); }

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
  std::string text;
  AddField(machine_, &text);
  AddField(runtime.platform_name, &text);
  AddField(runtime.platform_version, &text);
  AddField(runtime.xla_version, &text);
  AddField(request.format, &text);
  AddField(Digest(request.program), &text);
  AddField(request.options, &text);
  AddField(absl::StrCat(request.num_replicas, "x", request.num_partitions, "/", absl::StrJoin(request.devices, ","), "/",
                        request.host_callbacks),
           &text);
  AddField(PatternOf(request.positions), &text);
  return absl::BytesToHexString(Digest(text));
}

std::string CompileCache::PathOf(const std::string& key) const { return absl::StrCat(folder_, "/", key, kSuffix); }

std::optional<std::string> CompileCache::Read(const std::string& key) const {
  if (!enabled() || !IsPrivate()) return std::nullopt;
  std::ifstream file(PathOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  constexpr size_t kHead = sizeof(kMagic) - 1 + kChecksumBytes;
  if (bytes.size() < kHead || bytes.compare(0, sizeof(kMagic) - 1, kMagic) != 0 ||
      bytes.substr(sizeof(kMagic) - 1, kChecksumBytes) != Digest(absl::string_view(bytes).substr(kHead))) {
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
  MakeFolder();
  if (!IsPrivate()) return;
  const std::string entry = absl::StrCat(kMagic, Digest(value), value);
  int error = WriteEntry(key, entry);
  if (error == ENOSPC || error == EDQUOT) {
    const int64_t all = Trim(limit_bytes_);
    Trim(std::max<int64_t>(0, all - std::max(all / 4, 2 * static_cast<int64_t>(entry.size()))));
    error = WriteEntry(key, entry);
  }
  if (error != 0) {
    PW_LOG_WARNING << "cannot write to the compile cache " << folder_ << ": "
                   << std::error_code(error, std::generic_category()).message();
  }
  Trim(limit_bytes_);
}

int CompileCache::WriteEntry(const std::string& key, absl::string_view entry) const {
  static std::atomic<uint64_t> serial{0};
  const std::string temporary = absl::StrCat(PathOf(key), ".", getpid(), ".", serial.fetch_add(1), kTemporary);
  const net::Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  int error = fd.valid() ? 0 : errno;
  while (error == 0 && !entry.empty()) {
    const ssize_t n = ::write(fd.get(), entry.data(), entry.size());
    if (n > 0) entry.remove_prefix(static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && ::rename(temporary.c_str(), PathOf(key).c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

void CompileCache::MakeFolder() const {
  std::error_code ignored;
  fs::create_directories(fs::path(folder_).parent_path(), ignored);
  ::mkdir(folder_.c_str(), 0700);
}

// Returns whether no other user can write to the folder. A missing folder counts as private.
bool CompileCache::IsPrivate() const {
  struct stat info;
  if (::stat(folder_.c_str(), &info) != 0) return true;
  const bool is_private = info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  static std::atomic<bool> said{false};
  if (!is_private && !said.exchange(true)) {
    PW_LOG_WARNING << "the compile cache " << folder_
                   << " is not used: others can write there what this worker would run. Give it to the user "
                   << "of the worker, and take write permission from its group and others";
  }
  return is_private;
}

void CompileCache::Remove(const std::string& key) const {
  std::error_code ignored;
  fs::remove(PathOf(key), ignored);
}

int64_t CompileCache::Trim(int64_t limit_bytes) const {
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
    if (it->path().extension() == std::string(kTemporary) &&
        fs::file_time_type::clock::now() - it->last_write_time(gone) > kAbandoned)
      fs::remove(it->path(), gone);
    if (it->path().extension() != std::string(kSuffix)) continue;
    Entry entry{it->last_write_time(gone), static_cast<int64_t>(it->file_size(gone)), it->path()};
    if (gone) continue;
    total += entry.size;
    entries.push_back(std::move(entry));
  }
  if (total <= limit_bytes) return total;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes) break;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.size;
  }
  return total;
}

}  // namespace pw::worker
