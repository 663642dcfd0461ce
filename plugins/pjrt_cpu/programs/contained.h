// RunContained: turns a compiler's fatal error into a status. XLA, Shardy and LLVM end the process when an assumption fails
// (CHECK, report_fatal_error), for example on a program newer than they are. In a process that serves many clients, one client's
// program must not affect the others.
//
// The work runs on its own thread. When that thread reports a fatal error, it stops forever in the middle of its work: its memory
// stays allocated, and its locks stay held. Fatal errors on any other thread, including the compiler's own, still end the
// process.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace pw::pjrt_cpu {

// Returns INTERNAL with the compiler's message if the work failed fatally. `work` may refer to the caller's objects: a stopped
// thread no longer accesses them.
absl::Status RunContained(absl::FunctionRef<void()> work);

template <typename Work>
auto Contained(Work work) -> decltype(work()) {
  // Not on the stack: a stopped thread keeps it.
  auto result = std::make_shared<std::optional<decltype(work())>>();
  absl::Status status = RunContained([&work, result] { result->emplace(work()); });
  if (!status.ok()) return status;
  return std::move(**result);
}

}  // namespace pw::pjrt_cpu
