// KeySet: the public keys with which an identity provider's tokens are checked (JWKS, RFC 7517). Pure.
//
// Keys of other kinds than RSA and P-256, and keys that are not for signatures, are left out: providers publish both side by side.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/net/tls/verifying_key.h"

namespace pw::identity {

class KeySet {
 public:
  // INVALID_ARGUMENT: `text` is not a key set, or has no key that can check a token.
  static absl::StatusOr<KeySet> Parse(absl::string_view text);

  // Returns the key with this id, or null. If the set has only one key, returns that one for a token without an id ("").
  const net::VerifyingKey* Find(const std::string& id) const;
  size_t size() const { return keys_.size(); }

 private:
  std::map<std::string, std::shared_ptr<const net::VerifyingKey>> keys_;  // by id ("kid")
};

}  // namespace pw::identity
