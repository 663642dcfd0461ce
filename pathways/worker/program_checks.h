// What can be said about a program without a compiler. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pw::worker {

// UNIMPLEMENTED, naming the target, if the program calls something that lives in the client's process: those calls carry pointers
// or keys that mean nothing here, and following one would crash.
absl::Status CheckCustomCalls(absl::string_view program);

// "1.13.7" of a StableHLO portable artifact, from the producer string at its start; empty if it is none.
std::string StablehloVersion(absl::string_view program);

// The error to report when the runtime refused the program: says so if it could not read it and the program is of a newer StableHLO
// than it reads.
absl::Status ExplainRefusal(const absl::Status& refusal, absl::string_view program, const std::string& runtime_version);

}  // namespace pw::worker
