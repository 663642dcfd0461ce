// Token files: give a client or a worker a cluster's address, authority and a token. Lines of text:
//
//   address head:8470
//   authority sha256:5f...
//   token pw-0123abcd-...
//
// Instead of the token there may be "token-from PATH": a file that has the token, and that another program renews (token_source.h).
// If the cluster's operator has turned TLS off, the lines are "address head:8470" and "tls off".
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/net/tls/tls.h"

namespace pw::identity {

struct TokenFile {
  std::string address;    // where clients connect; for people, and for programs that search for a cluster's file
  std::string authority;  // the fingerprint of the cluster's authority: 32 bytes
  std::string token;
  bool tls_off = false;
  std::string token_from = {};  // the absolute path of the file that has the token; empty: `token` is it
};

std::string ToText(const TokenFile& file);
// Parses a token file. INVALID_ARGUMENT says what is wrong, and never quotes a token.
absl::StatusOr<TokenFile> ParseTokenFile(absl::string_view text);
// Reads a file that only its owner can read. PERMISSION_DENIED: other users can read it, too.
absl::StatusOr<TokenFile> ReadTokenFile(const std::string& path);

// ReadPrivateFile reads a file of at most `limit` bytes. WritePrivateFile replaces a file atomically and durably, with mode 0600.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t limit);
absl::Status WritePrivateFile(const std::string& path, absl::string_view text);

}  // namespace pw::identity
