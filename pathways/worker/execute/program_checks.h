// Checks on programs that need no compiler, and errors for programs that the device runtime cannot read. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pw::worker {

// Returns UNIMPLEMENTED, naming the target, if the program calls a function in the client's process (program/client_calls.h).
absl::Status CheckCustomCalls(absl::string_view program);

// Returns whether the runtime refused the program because it could not read it. Then its error says so, and the program uses a
// newer StableHLO than the runtime.
bool IsNewerThanRuntime(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version);

// Returns an error for such a refusal, with both versions and the remedy.
absl::Status ExplainNewerProgram(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version);

}  // namespace pw::worker
