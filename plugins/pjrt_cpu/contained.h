// Compilers that give up. XLA, Shardy and LLVM end the process where an assumption of theirs fails (CHECK, report_fatal_error),
// and a program newer than they are is enough to make one fail. In a process that serves many clients, one client's
// program must not end what the others have: RunContained() makes an error of it.
//
// The work runs on a thread of its own. Where that thread reports a fatal error it stops for good, in the middle of what it does:
// its memory stays allocated, as do locks it may hold. All other threads, those that the compiler starts among them, end the
// process as ever.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace pw::pjrt_cpu {

// INTERNAL with the compiler's words if the work gave up. `work` may refer to what the caller holds: a thread that has stopped does not
// look at it any more.
absl::Status RunContained(absl::FunctionRef<void()> work);

template <typename Work>
auto Contained(Work work) -> decltype(work()) {
  // Not on the stack: a thread that gave up keeps it.
  auto result = std::make_shared<std::optional<decltype(work())>>();
  absl::Status status = RunContained([&work, result] { result->emplace(work()); });
  if (!status.ok()) return status;
  return std::move(**result);
}

}  // namespace pw::pjrt_cpu
