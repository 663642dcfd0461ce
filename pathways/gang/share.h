// Share: what a client is entitled to, as a user or an operator sets it. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::gang {

// A policy uses the part that concerns it.
struct Share {
  double weight = 1;  // > 0: device time in proportion to it
  int priority = 0;   // higher goes first
  friend bool operator==(const Share&, const Share&) = default;
};

inline constexpr double kLeastWeight = 1e-3, kLargestWeight = 1e6;
inline constexpr int kLargestPriority = 1'000'000;  // either way

// What is to be different; the rest stays.
struct ShareChange {
  std::optional<double> weight;
  std::optional<int> priority;
  bool empty() const { return !weight.has_value() && !priority.has_value(); }
};

// INVALID_ARGUMENT says what a weight and a priority may be.
absl::StatusOr<Share> Changed(Share share, const ShareChange& change);

// From text, as it stands in an environment variable; empty: not changed. INVALID_ARGUMENT for what is not a number, too.
absl::StatusOr<ShareChange> ParseShareChange(absl::string_view weight, absl::string_view priority);

}  // namespace pw::gang
