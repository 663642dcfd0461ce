// How many files and connections this process may have open: as many as the system allows it to ask for.
#pragma once

#include <sys/resource.h>

namespace pw {

// The limit that processes start with is often 1024; a cluster of 512 hosts is 512 connections at its controller. Called once, early.
inline void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // where that is refused the old one stays
}

}  // namespace pw
