#include "pathways/bin/examine_machine.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "pathways/base/process/open_files.h"
#include "pathways/base/release.h"

namespace pw {
namespace {

// Returns the folder of the file to which standard error goes, where our log is; empty: it is no file.
std::string FolderOfLog() {
  struct stat info = {};
  char path[4096];
  const ssize_t size = ::readlink("/proc/self/fd/2", path, sizeof(path));
  if (size <= 0 || ::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  const std::string file(path, static_cast<size_t>(size));
  return file.substr(0, file.rfind('/'));
}

// Measures the file system of a folder, or of the nearest folder above it that exists. Returns false if it cannot.
bool Measure(std::string folder, struct statvfs* measured) {
  while (::statvfs(folder.c_str(), measured) != 0) {
    const size_t slash = folder.rfind('/');
    if (errno != ENOENT || slash == std::string::npos || slash == 0) return false;
    folder.resize(slash);
  }
  return measured->f_blocks != 0;
}

}  // namespace

class MachineExaminer::Disks : public std::enable_shared_from_this<Disks> {
 public:
  explicit Disks(Environment environment) : folders_(std::move(environment.folders)), disk_(environment.disk) {
    folders_.push_back(FolderOfLog());
  }

  // Begins to measure, unless a measurement is under way: a file system that hangs holds one thread.
  void Begin() {
    {
      const std::lock_guard lock(mu_);
      if (std::exchange(measuring_, true)) return;
    }
    disk_->Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->MeasureAll();
    });
  }

  void AddTo(::pathways::v1::Examination* examination) const {
    const std::lock_guard lock(mu_);
    examination->set_disk(fullest_);
    examination->set_disk_free_bytes(free_);
    examination->set_disk_total_bytes(total_);
  }

 private:
  void MeasureAll() {
    std::string fullest;
    uint64_t free = 0, total = 0;
    for (const std::string& folder : folders_) {
      struct statvfs measured = {};
      if (folder.empty() || !Measure(folder, &measured)) continue;
      const uint64_t here = uint64_t{measured.f_bavail} * measured.f_frsize,
                     all = uint64_t{measured.f_blocks} * measured.f_frsize;
      if (total != 0 &&
          static_cast<double>(here) / static_cast<double>(all) >= static_cast<double>(free) / static_cast<double>(total))
        continue;
      fullest = folder;
      free = here;
      total = all;
    }
    const std::lock_guard lock(mu_);
    measuring_ = false;
    fullest_ = std::move(fullest);
    free_ = free;
    total_ = total;
  }

  std::vector<std::string> folders_;
  Executor* const disk_;
  mutable std::mutex mu_;
  bool measuring_ = false;  // guarded by mu_, as all below
  std::string fullest_;
  uint64_t free_ = 0, total_ = 0;
};

MachineExaminer::MachineExaminer(Environment environment)
    : tls_(environment.tls), disks_(std::make_shared<Disks>(std::move(environment))) {
  disks_->Begin();
}

::pathways::v1::Examination MachineExaminer::Examine() const {
  using std::chrono::nanoseconds;
  ::pathways::v1::Examination examination;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  examination.set_wall_clock_nanoseconds(std::chrono::duration_cast<nanoseconds>(now).count());
  examination.set_release(kRelease);
  examination.set_files_open(static_cast<uint64_t>(CountOpenFiles()));
  examination.set_files_limit(OpenFilesLimit());
  struct statvfs memory = {};
  if (::statvfs("/dev/shm", &memory) == 0) {
    examination.set_shared_memory_free_bytes(uint64_t{memory.f_bavail} * memory.f_frsize);
    examination.set_shared_memory_total_bytes(uint64_t{memory.f_blocks} * memory.f_frsize);
  }
  if (tls_ != nullptr && tls_->shows_certificate())
    examination.set_certificate_ends_seconds(absl::ToUnixSeconds(tls_->shown_until()));
  disks_->AddTo(&examination);
  disks_->Begin();
  return examination;
}

}  // namespace pw
