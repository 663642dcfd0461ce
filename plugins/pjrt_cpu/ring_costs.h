// How much the collectives of a compiled program send, for hosts that ask what a program would cost on devices of another kind.
//
// Counted as rings: each of n devices sends to the next, in steps that follow one another. An all-reduce of B bytes is 2 (n-1)
// steps of B/n bytes, a reduce-scatter, an all-gather and an all-to-all n-1 of them, a permutation one of B. A loop counts as often as
// it runs, if the compiler knows that, and else once, as in XLA's own count of operations; of the branches of a choice the largest counts.
#pragma once

#include <cstdint>

namespace xla {
class HloModule;
}

namespace pw::pjrt_cpu {

// Of one device.
struct RingCosts {
  int64_t bytes = 0;
  int64_t steps = 0;
};

RingCosts CountRings(const xla::HloModule& module);

}  // namespace pw::pjrt_cpu
