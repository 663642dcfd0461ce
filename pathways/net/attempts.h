// Attempts: how long each of a row of attempts to connect may take. When the network is cut, the packets that open a connection are lost, and the
// kernel repeats them after 1, 2, 4, ... seconds: in a long attempt, a network that is back would be noticed late. So attempts are short, and begin
// anew. Every third is longer, for networks on which it takes more than two seconds to connect.
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
