// Versions of StableHLO: the one that a program was written for, and the one that a device runtime reads. Pure.
//
// A runtime reads what was written for its own version or an older one. Of a newer program it may still read all: what counts is the
// operations that the program uses.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace pw::program {

struct StablehloVersion {
  int major = 0;
  int minor = 0;
  int patch = 0;

  auto operator<=>(const StablehloVersion&) const = default;
  std::string ToString() const;
};

// "1.13.7", or "1.13". Nullopt if it is not of that form.
std::optional<StablehloVersion> ParseStablehloVersion(absl::string_view text);

// Of a StableHLO portable artifact, from the producer string at its start. Nullopt if it is none.
std::optional<StablehloVersion> StablehloVersionOf(absl::string_view program);

}  // namespace pw::program
