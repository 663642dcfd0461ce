// FewFiles: for tests of what happens when there are no descriptors left.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace pw {

// While this stands the process can open `more` files and connections, as long as it closes none. What is open stays so.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);  // the lowest that is free
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
