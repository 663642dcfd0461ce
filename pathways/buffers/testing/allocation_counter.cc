#include "pathways/buffers/testing/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
pw::buffers::Allocations so_far;
}  // namespace

void* operator new(size_t size) {
  ++so_far.count;
  so_far.bytes += size;
  if (void* p = std::malloc(size)) return p;
  std::abort();
}
// Replaced too, because the deletes below free its memory. They are not inlined: g++ would warn of a `free` of memory from `new`.
void* operator new(size_t size, const std::nothrow_t&) noexcept { return operator new(size); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace pw::buffers {

Allocations AllocationsSoFar() { return so_far; }

}  // namespace pw::buffers
