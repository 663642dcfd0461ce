// Tls: what one process shows to its peers on TCP, and whom it trusts there. TLS 1.3, and nothing older.
//
// It trusts one authority, known by its fingerprint: the cluster's. A peer shows a chain that ends with that authority's certificate, so that
// the fingerprint is all that a client must have been given. A process that has a certificate shows it on both sides of its connections; a
// client has none, and says who it is by a token once the connection is encrypted.
//
// Invariants:
//   TL-1  a connection that this process opens is established only with a peer that has shown a certificate of the trusted authority
//   TL-2  a peer that connects and shows a certificate of any other authority is refused; one that shows none is a stranger (PeerProof)
//   TL-3  Show takes effect for connections begun afterwards; those that exist go on
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct ssl_st;      // OpenSSL's SSL
struct ssl_ctx_st;  // SSL_CTX

namespace pw::net {

class Tls {
 public:
  // `authority`: the SHA-256 of its certificate, 32 bytes (certificates.h). Empty: it trusts nobody until Show, and then the authority at the end of
  // the chain: for a worker that learns of it on a Unix socket.
  static absl::StatusOr<std::shared_ptr<Tls>> Create(const std::string& authority);

  // From now on shows this chain; it replaces an earlier one while the process runs.
  absl::Status Show(const std::string& chain_pem, const std::string& key_pem);
  bool shows_certificate() const;

  // For tls_channel.cc: a new connection's state, or null if there is no memory.
  ssl_st* NewConnection() const;
  std::string authority() const;

 private:
  explicit Tls(std::string authority) : authority_(std::move(authority)) {}
  absl::StatusOr<std::shared_ptr<ssl_ctx_st>> NewContext() const;

  mutable std::mutex mu_;
  std::string authority_;                // guarded by mu_
  std::shared_ptr<ssl_ctx_st> context_;  // guarded by mu_
  bool shows_ = false;                   // guarded by mu_
};

// Writes and reads the form "sha256:HEX" of an authority's fingerprint, in which people pass it on.
std::string FingerprintText(absl::string_view fingerprint);
absl::StatusOr<std::string> ParseFingerprint(absl::string_view text);

}  // namespace pw::net
