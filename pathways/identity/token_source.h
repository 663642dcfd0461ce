// TokenSource: the token that this process shows. If another program renews it in a file, every connection shows what the file has then.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace pw::identity {

class TokenSource {
 public:
  TokenSource() = default;                                      // no token is needed
  TokenSource(std::string token) : token_(std::move(token)) {}  // NOLINT(google-explicit-constructor): most tokens never change
  // The token in this file, which only its owner can read: one line. INVALID_ARGUMENT: it has no token, or one that is too long for
  // a controller. No error quotes it.
  static absl::StatusOr<TokenSource> At(std::string path);

  // Reads the file again. While that fails, or the file is half written, the last token stays.
  const std::string& Now() const;

 private:
  std::string path_;  // empty: the token never changes
  mutable std::string token_;
};

}  // namespace pw::identity
