// How long a client and a controller on different machines bear that the other's machine acknowledges nothing: it, or the network between them,
// has gone without a word. The connection is then made anew (client/link.h); a process that is stopped is no such case, its machine answers for it.
#pragma once

#include "absl/time/time.h"

namespace pw::net {

inline constexpr absl::Duration kLongestSilence = absl::Seconds(10);

}  // namespace pw::net
