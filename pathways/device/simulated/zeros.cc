#include "pathways/device/simulated/zeros.h"

#include <sys/mman.h>

#include <memory>

namespace pw::device {
namespace {

constexpr size_t kSmallest = size_t{1} << 20;

// Untouched private memory reads as zeros and maps to the kernel's single zero page.
Bytes Map(size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return {};
  return Bytes(std::shared_ptr<const void>(memory, [size](const void* p) { munmap(const_cast<void*>(p), size); }), memory, size);
}

}  // namespace

Bytes Zeros::Take(size_t size) {
  std::lock_guard<std::mutex> lock(mu_);
  if (largest_.size() < size) {
    size_t room = kSmallest;
    while (room < size) room *= 2;
    largest_ = Map(room);
  }
  return largest_.size() < size ? Bytes() : largest_.Slice(0, size);
}

}  // namespace pw::device
