#include "pathways/bin/examine_machine.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <chrono>
#include <filesystem>
#include <system_error>

namespace pw {

::pathways::v1::Examination ExamineMachine() {
  using std::chrono::nanoseconds;
  ::pathways::v1::Examination examination;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  examination.set_wall_clock_nanoseconds(std::chrono::duration_cast<nanoseconds>(now).count());
  std::error_code error;
  uint64_t files = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error)) ++files;
  examination.set_files_open(files);
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) examination.set_files_limit(limit.rlim_cur);
  struct statvfs memory = {};
  if (::statvfs("/dev/shm", &memory) == 0) {
    examination.set_shared_memory_free_bytes(uint64_t{memory.f_bavail} * memory.f_frsize);
    examination.set_shared_memory_total_bytes(uint64_t{memory.f_blocks} * memory.f_frsize);
  }
  return examination;
}

}  // namespace pw
