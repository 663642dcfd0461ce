#include "pathways/gang/share.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pw::gang {
namespace {

absl::Status BadWeight(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("a weight is a number from ", kLeastWeight, " to ", kLargestWeight, ", not '", text,
                   "': device time is shared out in proportion to the clients' weights, 1 by default"));
}

absl::Status BadPriority(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("a priority is a whole number from -", kLargestPriority, " to ",
                                                 kLargestPriority, ", not '", text,
                                                 "': the client with the highest goes first, 0 by default"));
}

}  // namespace

absl::StatusOr<Share> Changed(Share share, const ShareChange& change) {
  if (change.weight.has_value()) {
    if (!(*change.weight >= kLeastWeight && *change.weight <= kLargestWeight)) return BadWeight(absl::StrCat(*change.weight));
    share.weight = *change.weight;
  }
  if (change.priority.has_value()) {
    if (*change.priority < -kLargestPriority || *change.priority > kLargestPriority)
      return BadPriority(absl::StrCat(*change.priority));
    share.priority = *change.priority;
  }
  return share;
}

absl::StatusOr<ShareChange> ParseShareChange(absl::string_view weight, absl::string_view priority) {
  ShareChange change;
  double number = 0;
  int whole = 0;
  if (!weight.empty()) {
    if (!absl::SimpleAtod(weight, &number)) return BadWeight(weight);
    change.weight = number;
  }
  if (!priority.empty()) {
    if (!absl::SimpleAtoi(priority, &whole)) return BadPriority(priority);
    change.priority = whole;
  }
  if (absl::StatusOr<Share> share = Changed(Share(), change); !share.ok()) return share.status();
  return change;
}

}  // namespace pw::gang
