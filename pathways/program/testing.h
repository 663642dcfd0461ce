// Constants shared by the tests of this folder.
#pragma once

namespace pw::program {

inline constexpr int kF32 = 11;  // as programs write buffers::DType

}  // namespace pw::program
