// The time after which a client and a controller on different machines give up a connection whose other machine acknowledges
// nothing: that machine or the network is gone. They reconnect (client/link.h). The machine of a stopped process still answers.
#pragma once

#include "absl/time/time.h"

namespace pw::net {

inline constexpr absl::Duration kLongestSilence = absl::Seconds(10);

}  // namespace pw::net
