// Finds calls from a program into its client's process. They carry pointers or keys that have no meaning in other processes;
// following one would crash. Pure.
#pragma once

#include "absl/strings/string_view.h"

namespace pw::program {

// Returns the name of such a call in the program, in any form of StableHLO; empty: it has none.
absl::string_view ClientCallIn(absl::string_view program);

}  // namespace pw::program
