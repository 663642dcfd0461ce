// Handles programs that specify the memory of a value.
//
// jax marks a result for host memory twice: with an attribute of the function's result and with a custom call. XLA:CPU obeys the
// attribute. This version of it neither implements the call nor partitions it. On CPU the attribute suffices, so the call is
// replaced by the identity.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {

// Returns whether a module, as text or bytecode, may contain the call.
bool HasPlacement(absl::string_view module);

// Returns a module's text with every such call replaced by the identity.
std::string WithoutPlacement(absl::string_view text);

}  // namespace pw::pjrt_cpu
