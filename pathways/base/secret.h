// Secrets: makes random keys and compares presented secrets in constant time.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace pw {

// Returns 32 random bytes, new ones at each call. Aborts if the system has no randomness.
std::string RandomKey();

// Returns whether `shown` equals `secret`. The time depends only on the length of `shown`, so the delay of an answer does not
// reveal how much of a guess was right.
inline bool SameSecret(absl::string_view shown, absl::string_view secret) {
  unsigned char different = shown.size() == secret.size() ? 0 : 1;
  const absl::string_view other = different == 0 ? secret : shown;
  for (size_t i = 0; i < shown.size(); ++i) different = static_cast<unsigned char>(different | (shown[i] ^ other[i]));
  return different == 0;
}

}  // namespace pw
