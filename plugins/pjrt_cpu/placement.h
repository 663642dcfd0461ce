// Programs that say in which memory a value lives.
//
// jax marks a result that goes to host memory twice: with an attribute of the function's result, which XLA:CPU obeys, and with a
// custom call that this version of XLA:CPU neither implements nor lets the partitioner split. On CPU the mark on the result says it
// all, so the call is replaced by an operation that does nothing.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {

// Whether a module, text or bytecode, may contain the call.
bool HasPlacement(absl::string_view module);

// A module's text with every such call replaced by the identity.
std::string WithoutPlacement(absl::string_view text);

}  // namespace pw::pjrt_cpu
