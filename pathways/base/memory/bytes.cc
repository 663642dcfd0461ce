#include "pathways/base/memory/bytes.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/base/memory/try_allocate.h"

namespace pw {
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

AlignedBytes::AlignedBytes(size_t size) : size_(size) {
  std::optional<AlignedBytes> made = TryAllocate(size);
  if (!made.has_value()) {  // sizes from outside go through TryAllocate, which does not abort
    PW_LOG_ERROR << "no memory for " << size << " bytes";
    std::abort();
  }
  data_ = made->memory();
}

}  // namespace pw
