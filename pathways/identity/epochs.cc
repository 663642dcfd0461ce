#include "pathways/identity/epochs.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {
namespace {

constexpr size_t kMostEpochBytes = 64;
constexpr uint64_t kGreatest = uint64_t{1} << 62;

std::string PathIn(const std::string& folder) { return folder + "/epoch"; }

}  // namespace

absl::StatusOr<uint64_t> ReadEpoch(const std::string& folder) {
  const absl::StatusOr<std::string> text = ReadPrivateFile(PathIn(folder), kMostEpochBytes);
  if (absl::IsNotFound(text.status())) return 0;
  if (!text.ok()) return text.status();
  uint64_t epoch = 0;
  if (absl::SimpleAtoi(*text, &epoch) && epoch <= kGreatest) return epoch;
  return absl::InvalidArgumentError(
      absl::StrCat(PathIn(folder), " does not have the number of the cluster's last controller: remove it if no controller of this cluster runs"));
}

absl::StatusOr<uint64_t> NextEpoch(const std::string& folder, absl::Time now) {
  const auto by_clock = static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(now), 1));
  if (folder.empty()) return by_clock;
  PW_ASSIGN_OR_RETURN(const uint64_t last, ReadEpoch(folder));
  return std::max(by_clock, last + 1);
}

absl::Status TakeEpoch(const std::string& folder, uint64_t epoch) {
  if (folder.empty()) return absl::OkStatus();
  return WritePrivateFile(PathIn(folder), absl::StrCat(epoch, "\n"));
}

}  // namespace pw::identity
