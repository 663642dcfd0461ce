#include "pathways/base/memory/try_allocate.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw {
namespace {

constexpr std::align_val_t kAlignment{64}, kLargePage{2 << 20};
constexpr size_t kLarge = 4 << 20;
constexpr size_t kMost = size_t{1} << 62;  // the allocator rounds sizes up without checking for overflow

template <std::align_val_t kBoundary>
std::shared_ptr<uint8_t> New(size_t size) {
  return {static_cast<uint8_t*>(::operator new(std::max<size_t>(size, 1), kBoundary, std::nothrow)),
          [](uint8_t* p) { ::operator delete(p, kBoundary); }};
}

}  // namespace

std::optional<AlignedBytes> TryAllocate(size_t size) {
  if (size > kMost) return std::nullopt;
  const bool large = size >= kLarge;
  std::shared_ptr<uint8_t> memory = large ? New<kLargePage>(size) : New<kAlignment>(size);
  if (memory == nullptr) return std::nullopt;
  if (large) ::madvise(memory.get(), size, MADV_HUGEPAGE);  // best effort; a failure changes nothing
  return AlignedBytes(std::move(memory), size);
}

absl::StatusOr<AlignedBytes> TryAllocateHostBuffer(int64_t size) {
  std::optional<AlignedBytes> memory = TryAllocate(static_cast<size_t>(size));
  if (memory.has_value()) return *std::move(memory);
  return absl::ResourceExhaustedError(absl::StrCat("there is no memory for a host buffer of ", size, " bytes"));
}

absl::StatusOr<Bytes> TryCopy(std::string_view data) {
  absl::StatusOr<AlignedBytes> memory = TryAllocateHostBuffer(static_cast<int64_t>(data.size()));
  if (!memory.ok()) return memory.status();
  if (!data.empty()) std::memcpy(memory->data(), data.data(), data.size());
  return std::move(*memory).Freeze();
}

}  // namespace pw
