// TryAllocate: allocates memory of a size that a peer or user chose. If that fails, the request fails, not the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"

namespace pw {

// Allocates like AlignedBytes(size). Returns nullopt if the system has no memory.
std::optional<AlignedBytes> TryAllocate(size_t size);

// Like TryAllocate, for a host buffer. Returns RESOURCE_EXHAUSTED if the system has no memory.
absl::StatusOr<AlignedBytes> TryAllocateHostBuffer(int64_t size);

// Like Bytes::Copy. Returns RESOURCE_EXHAUSTED if the system has no memory.
absl::StatusOr<Bytes> TryCopy(std::string_view data);

}  // namespace pw
