// Memory of a size that comes from outside: where there is none, the request fails and not the process.
#pragma once

#include <cstddef>
#include <optional>

#include "pathways/base/bytes.h"

namespace pw {

// What AlignedBytes(size) makes. Nullopt: the system has no such memory.
std::optional<AlignedBytes> TryAllocate(size_t size);

}  // namespace pw
