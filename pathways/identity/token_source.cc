#include "pathways/identity/token_source.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/issuer.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {
namespace {

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  PW_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path, kMostIssuedBytes + 2));  // and the line's end
  std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty() || !std::all_of(token.begin(), token.end(), [](char c) { return absl::ascii_isgraph(c); }))
    return absl::InvalidArgumentError(absl::StrCat(path, " does not have a token in its only line"));
  if (token.size() > kMostIssuedBytes)
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has a token of more than ", kMostIssuedBytes, " bytes, which no controller reads"));
  return token;
}

}  // namespace

absl::StatusOr<TokenSource> TokenSource::At(std::string path) {
  PW_ASSIGN_OR_RETURN(std::string token, ReadToken(path));
  TokenSource source(std::move(token));
  source.path_ = std::move(path);
  return source;
}

const std::string& TokenSource::Now() const {
  if (path_.empty()) return token_;
  if (absl::StatusOr<std::string> token = ReadToken(path_); token.ok()) token_ = *std::move(token);
  return token_;
}

}  // namespace pw::identity
