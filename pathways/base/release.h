// The release of pathways to which a process belongs; pyproject.toml has the same number.
#pragma once

namespace pw {

inline constexpr char kRelease[] = "0.1.0";

}  // namespace pw
