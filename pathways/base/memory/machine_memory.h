// The memory of this machine, from which default limits are derived. In a container or job with a limit (cgroup 2), that limit counts instead.
#pragma once

#include <cstdint>
#include <string>

namespace pw {

int64_t MemoryOfMachine();
inline int64_t HalfOfMemory() { return MemoryOfMachine() / 2; }
// Returns the bytes that can be allocated without evicting anything; 0 if the system does not report it.
int64_t AvailableMemory();

// Returns the least of `otherwise` and the limits (memory.max) of a control group and its ancestors. The control groups are
// mounted at `root`. `membership` is the contents of /proc/self/cgroup.
int64_t LimitOfGroup(const std::string& root, const std::string& membership, int64_t otherwise);

}  // namespace pw
