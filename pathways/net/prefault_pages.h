// Map pages that are about to be used, all by one system call: faults of single pages would take as long as using them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace pw::net {

// Best effort: a failure changes nothing. Maps the first and last pages whole.
inline void AdvisePages([[maybe_unused]] const void* data, [[maybe_unused]] size_t size, [[maybe_unused]] int advice) {
  constexpr uintptr_t kPage = 4096;
  constexpr size_t kWorthwhile = 16 * kPage;
  if (size < kWorthwhile) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size + kPage - 1) & ~(kPage - 1);
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// Before they are written.
inline void PrefaultPages([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
#ifdef MADV_POPULATE_WRITE
  AdvisePages(data, size, MADV_POPULATE_WRITE);
#endif
}

// Before they are read.
inline void PrefaultForReading([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
#ifdef MADV_POPULATE_READ
  AdvisePages(data, size, MADV_POPULATE_READ);
#endif
}

}  // namespace pw::net
