// Issuer: an identity provider (OpenID Connect) that the operator trusts to say who a client is. Its tokens are signed texts (JWT,
// RFC 7519), which clients show instead of a token of the cluster. Pure: the keys are read elsewhere (bin/issuer_flags.h).
//
// Invariants:
//   OI-1  a token counts only if a key of this issuer signed it with that key's own algorithm, if it is for this audience, and if it
//         has an end, which is not over
//   OI-2  no token makes its owner a worker
//   OI-3  no refusal quotes the token
//   OI-4  its owner cannot pass for one of the users that the cluster makes for itself (kOwnUsers)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/identity/key_set.h"
#include "pathways/identity/role.h"

namespace pw::identity {

struct IssuerOptions {
  std::string url;                 // the provider's name, its tokens' "iss"
  std::string audience;            // what tokens for this cluster are for, their "aud"
  std::string user_claim = "sub";  // the field of a token with its owner's name
  std::string operators;  // CLAIM=VALUE: users whose field has this value, alone or in a list, are operators; empty: none
};

// The longest token that counts: a hello has at most 4 KiB.
inline constexpr size_t kMostIssuedBytes = 3 << 10;

class Issuer {
 public:
  // INVALID_ARGUMENT says which option is wrong.
  static absl::StatusOr<Issuer> Create(IssuerOptions options);

  const std::string& url() const { return options_.url; }
  void SetKeys(KeySet keys) { keys_ = std::move(keys); }
  // Sets a function that is called when a token names an unknown key: the issuer may have a new one since the keys were read. Any client
  // can cause such calls, so `ask` limits how often it asks the issuer.
  void OnUnknownKey(std::function<void()> ask) { ask_for_keys_ = std::move(ask); }

  // Returns whether a text has the form of a signed token; the cluster's own tokens do not.
  static bool HasForm(absl::string_view token);
  // Returns the owner of a token. UNAUTHENTICATED says why the token does not count.
  absl::StatusOr<Caller> Admit(absl::string_view token, absl::Time now) const;
  // Returns the owner in the claims of a token whose signature is right: its middle part, in base64. For Admit, and for fuzzers.
  absl::StatusOr<Caller> CallerOf(absl::string_view claims, absl::Time now) const;

 private:
  explicit Issuer(IssuerOptions options) : options_(std::move(options)) {}

  IssuerOptions options_;
  std::optional<KeySet> keys_;          // nullopt: not read yet
  std::function<void()> ask_for_keys_;  // null: nobody reads them again
};

}  // namespace pw::identity
