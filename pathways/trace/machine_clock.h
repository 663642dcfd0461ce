// The name of the steady clock that a process reads. Processes with equal names read the same clock; the clocks of others differ by an
// unknown offset.
#pragma once

#include <string>

namespace pw::trace {

// Returns the kernel's boot id, or empty if it cannot be read: then the process shares its clock with no other.
std::string MachineClock();

}  // namespace pw::trace
