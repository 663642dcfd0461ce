// Token files: what a client or a worker has been given, to reach a cluster and to be let in. Lines of text:
//
//   address head:8470
//   authority sha256:5f...
//   token pw-0123abcd-...
//
// or, of a cluster whose operator has turned TLS off, "address head:8470" and "tls off".
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/net/tls.h"

namespace pw::identity {

struct TokenFile {
  std::string address;    // where clients connect; for people and for programs that look for the file of a cluster
  std::string authority;  // the fingerprint of the cluster's authority: 32 bytes
  std::string token;
  bool tls_off = false;
};

std::string ToText(const TokenFile& file);
// INVALID_ARGUMENT says what is wrong, and never quotes a token.
absl::StatusOr<TokenFile> ParseTokenFile(absl::string_view text);
// Reads a file that only its owner can read. PERMISSION_DENIED: others can, too.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path);

// Reads a file of at most `limit` bytes, and writes one of mode 0600 in the place of another, at once and durably.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t limit);
absl::Status WritePrivateFile(const std::string& path, absl::string_view text);

}  // namespace pw::identity
