// Simulated programs that many tests run (runtime.h has the words). Not for products.
#pragma once

namespace pw::device {

inline constexpr char kAdd[] = "args=1 outputs=1 dims=4";              // x + 1
inline constexpr char kDonate[] = "args=1 outputs=1 dims=4 donate=0";  // likewise, in place

}  // namespace pw::device
