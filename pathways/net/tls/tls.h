// Tls: the certificate that one process shows to its TCP peers, and the authority that it trusts. TLS 1.3, and nothing older.
//
// It trusts one authority, the cluster's, and knows it by its fingerprint. A peer shows a chain that ends with that authority's
// certificate, so a client needs only the fingerprint. A process with a certificate shows it whether it connects or accepts. A
// client has none, and authenticates by a token once the connection is encrypted.
//
// Invariants:
//   TK-1  a connection that this process opens is established only with a peer that has shown a certificate of the trusted authority
//   TK-2  a peer that connects and shows a certificate of any other authority is refused; one that shows none is a stranger (PeerProof)
//   TK-3  Show takes effect for connections begun afterwards; existing connections go on
//   TK-4  a Tls for visitors only accepts: TlsChannel refuses to connect with it, because it would believe any peer
// Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct ssl_st;      // OpenSSL's SSL
struct ssl_ctx_st;  // SSL_CTX

namespace pw::net {

class Tls {
 public:
  // `authority`: the SHA-256 of its certificate, 32 bytes (certificates.h). Empty: trusts no peer until Show, and afterwards the
  // authority at the end of that chain. A worker that receives its chain on a Unix socket starts so.
  static absl::StatusOr<std::shared_ptr<Tls>> Create(const std::string& authority);

  // Makes one for a server that browsers and other programs of people visit. It asks its peers for no certificate: a browser would ask its user for
  // one. All peers are strangers.
  static absl::StatusOr<std::shared_ptr<Tls>> ForVisitors();

  // Shows this chain from now on, instead of an earlier one.
  absl::Status Show(const std::string& chain_pem, const std::string& key_pem);
  bool shows_certificate() const;
  // Returns the time at which the shown certificate ends; InfiniteFuture: none is shown.
  absl::Time shown_until() const;
  bool is_for_visitors() const { return for_visitors_; }

  // Returns a new connection's state, or null if there is no memory. For tls_channel.cc.
  ssl_st* NewConnection() const;
  std::string authority() const;

 private:
  explicit Tls(std::string authority, bool for_visitors = false)
      : for_visitors_(for_visitors), authority_(std::move(authority)) {}
  absl::StatusOr<std::shared_ptr<ssl_ctx_st>> NewContext() const;

  const bool for_visitors_;
  mutable std::mutex mu_;
  std::string authority_;                            // guarded by mu_
  std::shared_ptr<ssl_ctx_st> context_;              // guarded by mu_
  bool shows_ = false;                               // guarded by mu_
  absl::Time shown_until_ = absl::InfiniteFuture();  // guarded by mu_
};

// Write and read an authority's fingerprint in the form "sha256:HEX", which people copy.
std::string FingerprintText(absl::string_view fingerprint);
absl::StatusOr<std::string> ParseFingerprint(absl::string_view text);

}  // namespace pw::net
