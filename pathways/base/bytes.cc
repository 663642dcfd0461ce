#include "pathways/base/bytes.h"

#include <cstring>
#include <new>
#include <utility>

namespace pw {
namespace {
constexpr std::align_val_t kAlignment{64};
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

AlignedBytes::AlignedBytes(size_t size)
    : data_(static_cast<uint8_t*>(::operator new(size == 0 ? 1 : size, kAlignment)),
            [](uint8_t* p) { ::operator delete(p, kAlignment); }),
      size_(size) {}

}  // namespace pw
