// CountRings: computes the data that a compiled program's collectives send, for hosts that estimate its cost on other devices.
//
// Collectives count as rings: each of n devices sends to the next, in successive steps. An all-reduce of B bytes takes 2 (n-1)
// steps of B/n bytes. A reduce-scatter, an all-gather, an all-to-all and a broadcast take n-1 of them. A permutation takes one
// step of B bytes. A loop counts with its number of runs if the compiler knows it, else once, as in XLA's own operation count. A
// conditional counts the most bytes and the most steps of its branches.
#pragma once

#include <cstdint>

namespace xla {
class HloModule;
}

namespace pw::pjrt_cpu {

// Costs of one device.
struct RingCosts {
  int64_t bytes = 0;
  int64_t steps = 0;
};

RingCosts CountRings(const xla::HloModule& module);

}  // namespace pw::pjrt_cpu
