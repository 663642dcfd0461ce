// FewFiles: lowers the limit of open files, for tests of running out of descriptors.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace pw {

// During its lifetime the process can open `more` files and connections, as long as it closes none. Open files stay open.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);  // the lowest free number
    close(next);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(more);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace pw
