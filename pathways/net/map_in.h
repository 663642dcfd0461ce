// Maps pages that are about to be written in one system call: faulting them in one by one takes as long as filling them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace pw::net {

// Best effort: a failure changes nothing. The first and last pages are mapped whole.
inline void MapIn([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
#ifdef MADV_POPULATE_WRITE
  constexpr uintptr_t kPage = 4096;
  constexpr size_t kWorthwhile = 16 * kPage;
  if (size < kWorthwhile) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size + kPage - 1) & ~(kPage - 1);
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
}

}  // namespace pw::net
