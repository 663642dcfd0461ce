// StartAnew: replaces this program by a new run of itself.
#pragma once

namespace pw {

// Runs the program of this process again, with the same arguments and environment, in the same process: who started it sees no end.
// Threads and memory are gone, and all open files but standard input, output and error. If that fails, it logs why, and the process ends with
// an error, so that who started it starts another.
[[noreturn]] void StartAnew();

}  // namespace pw
