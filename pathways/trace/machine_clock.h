// Which clock a process reads: processes with the same name share one steady clock, others differ by an unknown offset.
#pragma once

#include <string>

namespace pw::trace {

// The kernel's id of this boot of this machine; empty where it cannot be told, and then nobody shares it.
std::string MachineClock();

}  // namespace pw::trace
