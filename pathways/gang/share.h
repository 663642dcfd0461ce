// Share: a client's weight and priority in gang scheduling, as set by a user or an operator. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::gang {

// Policy "share" uses the weight, policy "priority" the priority (options.h).
struct Share {
  double weight = 1;  // > 0: device time in proportion to it
  int priority = 0;   // higher goes first
  friend bool operator==(const Share&, const Share&) = default;
};

inline constexpr double kLeastWeight = 1e-3, kLargestWeight = 1e6;
inline constexpr int kLargestPriority = 1'000'000;  // the lowest is its negative

// A change of a share. Absent fields keep their value.
struct ShareChange {
  std::optional<double> weight;
  std::optional<int> priority;
  bool empty() const { return !weight.has_value() && !priority.has_value(); }
};

// Returns the share after the change. INVALID_ARGUMENT names the range of weights and priorities.
absl::StatusOr<Share> Changed(Share share, const ShareChange& change);

// Parses texts such as environment variables; an empty text means no change. INVALID_ARGUMENT: not a number, or out of range.
absl::StatusOr<ShareChange> ParseShareChange(absl::string_view weight, absl::string_view priority);

}  // namespace pw::gang
