// Simulated programs used by many tests (runtime.h describes the format). Not for products.
#pragma once

namespace pw::device {

inline constexpr char kAdd[] = "args=1 outputs=1 dims=4";              // x + 1
inline constexpr char kDonate[] = "args=1 outputs=1 dims=4 donate=0";  // x + 1, in place

}  // namespace pw::device
