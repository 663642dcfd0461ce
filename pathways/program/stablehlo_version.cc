#include "pathways/program/stablehlo_version.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pw::program {

std::string StablehloVersion::ToString() const { return absl::StrCat(major, ".", minor, ".", patch); }

std::optional<StablehloVersion> ParseStablehloVersion(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  StablehloVersion version;
  int* const numbers[] = {&version.major, &version.minor, &version.patch};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], numbers[i]) || *numbers[i] < 0) return std::nullopt;
  }
  return version;
}

std::vector<int64_t> VersionNumbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (absl::string_view part : absl::StrSplit(text, '.')) {
    int64_t number;
    if (!absl::SimpleAtoi(part, &number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<StablehloVersion> StablehloVersionOf(absl::string_view program) {
  constexpr absl::string_view kProducer = "StableHLO_v";
  const absl::string_view start = program.substr(0, 64);
  const size_t at = start.find(kProducer);
  if (at == absl::string_view::npos) return std::nullopt;
  const absl::string_view rest = start.substr(at + kProducer.size());
  const auto end = std::find_if_not(rest.begin(), rest.end(),
                                    [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.'; });
  return ParseStablehloVersion(rest.substr(0, static_cast<size_t>(end - rest.begin())));
}

}  // namespace pw::program
