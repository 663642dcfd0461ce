// VerifyingKey: a public key that checks signatures. It is made of the numbers in which key sets on the web publish keys (JWK, RFC
// 7518). Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {

class VerifyingKey {
 public:
  // Makes an RSA key of 2,048 to 8,192 bits. Both numbers are big-endian. INVALID_ARGUMENT: they are no such key.
  static absl::StatusOr<VerifyingKey> Rsa(absl::string_view modulus, absl::string_view exponent);
  // Makes a key on the curve P-256 from the 32 bytes of each coordinate. INVALID_ARGUMENT: the point is not on the curve.
  static absl::StatusOr<VerifyingKey> P256(absl::string_view x, absl::string_view y);

  // Returns the name of the only algorithm that the key checks: "RS256" (PKCS #1 v1.5 with SHA-256) or "ES256" (ECDSA with SHA-256,
  // a signature of 64 bytes).
  const char* algorithm() const { return is_rsa_ ? "RS256" : "ES256"; }
  bool Verifies(absl::string_view text, absl::string_view signature) const;

 private:
  VerifyingKey(KeyPtr key, bool is_rsa) : key_(std::move(key)), is_rsa_(is_rsa) {}

  KeyPtr key_;
  bool is_rsa_;
};

}  // namespace pw::net
