// Memory of a size that comes from outside: where there is none, the request fails and not the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"

namespace pw {

// What AlignedBytes(size) makes. Nullopt: the system has no such memory.
std::optional<AlignedBytes> TryAllocate(size_t size);

// The same for a host buffer, whose lack is RESOURCE_EXHAUSTED.
absl::StatusOr<AlignedBytes> TryAllocateHostBuffer(int64_t size);

}  // namespace pw
