// How much memory this machine has, for limits that nobody has set. In a container or a job with a limit (cgroup 2), that is its limit.
#pragma once

#include <cstdint>
#include <string>

namespace pw {

int64_t MemoryOfMachine();
inline int64_t HalfOfMemory() { return MemoryOfMachine() / 2; }
// What can be had without pushing anything out; 0 where the system does not say.
int64_t AvailableMemory();

// The least of memory.max of a control group and all that it is in; `root` is where groups are mounted, `membership` what
// /proc/self/cgroup says. `otherwise` where there is no limit.
int64_t LimitOfGroup(const std::string& root, const std::string& membership, int64_t otherwise);

}  // namespace pw
