// How much memory this machine has, for limits that nobody has set.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace pw {

inline int64_t HalfOfMemory() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 2; }

}  // namespace pw
