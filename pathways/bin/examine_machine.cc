#include "pathways/bin/examine_machine.h"

#include <sys/statvfs.h>

#include <chrono>

#include "pathways/base/process/open_files.h"
#include "pathways/base/release.h"

namespace pw {

::pathways::v1::Examination ExamineMachine() {
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
  return examination;
}

}  // namespace pw
