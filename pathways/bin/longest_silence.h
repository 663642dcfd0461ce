// How long an agent and a controller on different machines bear that the other's machine acknowledges nothing: it has vanished without a word.
#pragma once

#include "absl/time/time.h"

namespace pw {

inline constexpr absl::Duration kLongestSilence = absl::Seconds(40);

}  // namespace pw
