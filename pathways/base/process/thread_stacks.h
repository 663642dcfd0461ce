// StacksOfThreads: the native stacks of all threads of this process, as text, for people who look for a thread that hangs.
//
// It interrupts one thread after another by a signal, whose handler notes that thread's own stack. A system call in which the thread waits goes on
// afterwards, or ends with EINTR, as with any signal.
//
// Invariants:
//   TX-1  the handler takes no lock and allocates nothing, so that it may interrupt any code
//   TX-2  a thread that does not note its stack in time, because it blocks signals or does not run, notes nothing later
// Any thread; one collection at a time, the others wait.
#pragma once

#include <functional>
#include <string>

namespace pw {

// Writes the name of the function at an address into the buffer. Returns false if it is not known.
using Symbolize = std::function<bool(const void* address, char* name, int size)>;

// Returns the stacks, threads with the same one together, at most 64 KiB. `symbolize` knows more names than those that the dynamic linker has; null: it
// knows none.
std::string StacksOfThreads(const Symbolize& symbolize);

}  // namespace pw
