// What can be said about a program without a compiler. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pw::worker {

// UNIMPLEMENTED, naming the target, if the program calls something that lives in the client's process: those calls carry pointers
// or keys that mean nothing here, and following one would crash.
absl::Status CheckCustomCalls(absl::string_view program);

// Whether the runtime refused the program because it did not read it: the runtime says something of the kind, and the program is of a newer
// StableHLO than the runtime's.
bool IsNewerThanRuntime(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version);

// Such a refusal, with both versions and the remedy.
absl::Status ExplainNewerProgram(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version);

}  // namespace pw::worker
