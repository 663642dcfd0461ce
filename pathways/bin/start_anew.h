// StartAnew: replaces this program by a new run of itself.
#pragma once

namespace pw {

// Runs the program of this process again, with the same arguments and environment. The process stays the same, so its parent sees no end.
// Its threads and memory are gone, and all open files but standard input, output and error. If that fails, logs the reason and ends the
// process with an error, so that the parent starts another.
[[noreturn]] void StartAnew();

}  // namespace pw
