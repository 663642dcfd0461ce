// StablehloVersion: the version of a StableHLO program, or the newest version that a device runtime reads. Pure.
//
// A runtime reads programs of its own version and older ones. It may read a newer program too, if it knows all its operations.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace pw::program {

struct StablehloVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto operator<=>(const StablehloVersion&) const = default;
  std::string ToString() const;
};

// Parses "1.13.7" or "1.13"; returns nullopt for any other form.
std::optional<StablehloVersion> ParseStablehloVersion(absl::string_view text);

// Returns the numbers of a version, in the form in which jax compares versions: "1.13.7" -> {1, 13, 7}. Empty for other text.
std::vector<int64_t> VersionNumbers(absl::string_view text);

// Returns the version in the producer string at the start of a StableHLO portable artifact; nullopt if the program is not one.
std::optional<StablehloVersion> StablehloVersionOf(absl::string_view program);

}  // namespace pw::program
