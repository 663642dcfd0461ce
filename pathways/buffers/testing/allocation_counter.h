// Counts what this test binary allocates with operator new, so that tests can assert what something costs in memory.
#pragma once

#include <cstddef>

namespace pw::buffers {

struct Allocations {
  size_t count = 0;
  size_t bytes = 0;
};
Allocations AllocationsSoFar();

}  // namespace pw::buffers
