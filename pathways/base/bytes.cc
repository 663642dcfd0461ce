#include "pathways/base/bytes.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

namespace pw {
namespace {
constexpr std::align_val_t kAlignment{64}, kLargePage{2 << 20};
constexpr size_t kLarge = 4 << 20;

std::shared_ptr<uint8_t> Allocate(size_t size) {
  if (size < kLarge)
    return {static_cast<uint8_t*>(::operator new(size == 0 ? 1 : size, kAlignment)),
            [](uint8_t* p) { ::operator delete(p, kAlignment); }};
  std::shared_ptr<uint8_t> memory(static_cast<uint8_t*>(::operator new(size, kLargePage)),
                                  [](uint8_t* p) { ::operator delete(p, kLargePage); });
  ::madvise(memory.get(), size, MADV_HUGEPAGE);  // a wish; where it is not granted nothing changes
  return memory;
}
}  // namespace

Bytes Bytes::Copy(std::string_view data) {
  AlignedBytes buffer(data.size());
  if (!data.empty()) std::memcpy(buffer.data(), data.data(), data.size());
  return std::move(buffer).Freeze();
}

Bytes Bytes::FromString(std::string data) {
  auto owner = std::make_shared<const std::string>(std::move(data));
  return Bytes(owner, owner->data(), owner->size());
}

Bytes Bytes::Slice(size_t offset, size_t size) const { return Bytes(owner_, data_ + offset, size); }

AlignedBytes::AlignedBytes(size_t size) : data_(Allocate(size)), size_(size) {}

}  // namespace pw
