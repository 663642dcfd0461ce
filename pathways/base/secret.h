// Secrets that somebody has to show.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace pw {

// 32 bytes that nobody can guess, another 32 at each call.
std::string RandomKey();

// Whether they are equal. The time that it takes depends on the length of `shown` alone, so that how long an answer takes tells nothing of
// how much of a guess was right.
inline bool SameSecret(absl::string_view shown, absl::string_view secret) {
  unsigned char different = shown.size() == secret.size() ? 0 : 1;
  const absl::string_view other = different == 0 ? secret : shown;
  for (size_t i = 0; i < shown.size(); ++i) different = static_cast<unsigned char>(different | (shown[i] ^ other[i]));
  return different == 0;
}

}  // namespace pw
