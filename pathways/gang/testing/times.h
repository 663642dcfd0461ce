// Named times for tests, in nanoseconds.
#pragma once

#include <cstdint>

namespace pw::gang {

inline constexpr int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

}  // namespace pw::gang
