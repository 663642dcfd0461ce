// TokenTable: the tokens that a cluster knows. Pure: no files, no clock, no randomness of its own.
//
// A token is a text, "pw-ID-SECRET". The table keeps the SHA-256 of the secret. A plain hash is enough, because the secret is 256
// random bits: it cannot be guessed or precomputed, so a slow hash or a salt would protect nothing.
//
// Invariants:
//   TT-1  neither the table nor its text contains a secret; only Create returns it, once
//   TT-2  the time of Check does not depend on how much of a wrong secret is right
//   TT-3  a revoked token and one with a wrong secret are refused with the same words as an unknown one. A token that has ended
//         or has no uses left is refused with that reason
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/identity/role.h"

namespace pw::identity {

struct TokenRequest {
  std::string user;  // 1 to 64 letters, digits, and any of . _ @ -
  Role role = Role::kUser;
  absl::Time expires = absl::InfiniteFuture();
  std::optional<int64_t> uses = std::nullopt;  // number of hosts that may join; nullopt: any. For workers' tokens only
};

struct TokenInfo {
  std::string id;  // 8 hexadecimal digits
  TokenRequest of;
  absl::Time created;
};

class TokenTable {
 public:
  // Adds a token and returns its text. `secret`: 32 random bytes (base/secret.h). INVALID_ARGUMENT says what is wrong.
  absl::StatusOr<std::string> Create(const TokenRequest& request, absl::Time now, absl::string_view secret);
  // Returns the token's entry, or UNAUTHENTICATED.
  absl::StatusOr<TokenInfo> Check(absl::string_view token, absl::Time now) const;
  // Checks a token and takes one of its uses.
  absl::StatusOr<TokenInfo> Use(absl::string_view token, absl::Time now);
  // Removes a token. NOT_FOUND if there is none with this id.
  absl::Status Revoke(const std::string& id);
  // Returns the tokens that have not ended, in the order of their creation.
  std::vector<TokenInfo> List(absl::Time now) const;

  // Returns the table as text for a file, a line for each token.
  std::string ToText() const;
  static absl::StatusOr<TokenTable> Parse(absl::string_view text);

 private:
  struct Entry {
    TokenInfo info;
    std::string hash;  // of the secret
  };
  absl::StatusOr<const Entry*> Find(absl::string_view token, absl::Time now) const;

  std::map<std::string, Entry> entries_;  // by id
};

// Returns INVALID_ARGUMENT if this is not a name that users may have.
absl::Status CheckUserName(absl::string_view user);

// Returns the id in a token's text, for messages; "?" if it has none.
std::string TokenId(absl::string_view token);

}  // namespace pw::identity
