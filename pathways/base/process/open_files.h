// The open files and connections of this process: counts them, reads their limit, and raises it to the hard limit.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

namespace pw {

// The soft limit is often 1024, but the controller of a 512-host cluster needs 512 connections. Called once, early.
inline void RaiseOpenFilesLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // on failure the old limit stays
}

inline int64_t CountOpenFiles() {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error)) ++count;
  return count;
}

// Returns 0 if there is no limit.
inline uint64_t OpenFilesLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : 0;
}

}  // namespace pw
