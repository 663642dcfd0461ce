// The limit of open files and connections of this process: raises it to the hard limit.
#pragma once

#include <sys/resource.h>

namespace pw {

// The soft limit is often 1024, but the controller of a 512-host cluster needs 512 connections. Called once, early.
inline void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // on failure the old limit stays
}

}  // namespace pw
