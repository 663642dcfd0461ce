// Counts this test binary's allocations by operator new, so that tests can assert memory costs.
#pragma once

#include <cstddef>

namespace pw::buffers {

struct Allocations {
  size_t count = 0;
  size_t bytes = 0;
};
Allocations AllocationsSoFar();

}  // namespace pw::buffers
