// The name of the clock that a process reads: processes with equal names share one steady clock; others differ by an unknown offset.
#pragma once

#include <string>

namespace pw::trace {

// Returns the kernel's boot id, or empty if it cannot be read: then the process shares its clock with no other.
std::string MachineClock();

}  // namespace pw::trace
