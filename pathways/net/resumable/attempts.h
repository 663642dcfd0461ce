// Attempts: the time limit of each in a series of attempts to connect. While the network is cut, the kernel repeats the packets
// that open a connection after 1, 2, 4, ... seconds. A long attempt would therefore notice late that the network is back. So
// attempts are short. Every third is longer, for networks on which connecting takes more than two seconds.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace pw::net {

class Attempts {
 public:
  absl::Duration Next() { return ++count_ % 3 == 0 ? absl::Seconds(6) : absl::Seconds(2); }

 private:
  uint64_t count_ = 0;
};

}  // namespace pw::net
