// PrefaultPages: maps pages that are about to be written, all by one system call. Page faults would take as long as filling the pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace pw::net {

// Best effort: a failure changes nothing. Maps the first and last pages whole.
inline void PrefaultPages([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
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
