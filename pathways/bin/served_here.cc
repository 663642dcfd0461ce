#include "pathways/bin/served_here.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pw {
namespace {
constexpr size_t kShortestSecret = 16;
}  // namespace

bool StaysOnThisMachine(const net::Address& address) {
  return address.kind == net::Address::Kind::kUnix || address.host == "localhost" || address.host == "::1" ||
         absl::StartsWith(address.host, "127.");
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("there is no such file, or it cannot be read");
  std::string text(most_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<std::string> ReadSecret(const std::string& flag, const std::string& path) {
  std::ifstream file(path);
  std::string secret;
  if (!(file >> secret) || secret.size() < kShortestSecret) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", path.empty() ? "the file" : path, " has no token of at least ",
                                                   kShortestSecret, " characters: make one by 'openssl rand -hex 32'"));
  }
  return secret;
}

}  // namespace pw
