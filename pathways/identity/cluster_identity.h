// ClusterIdentity: a cluster's authority and tokens, in a folder of its own. It decides who is let in.
//
// The folder has mode 0700, its files 0600:
//   authority.crt, authority.key   the certificate authority, made when the folder is first used; it lasts as long as the cluster's name
//   tokens                         the table of tokens, with hashes instead of secrets (tokens.h)
//
// The controller's own certificate and key are made anew whenever it starts, and daily while it runs; they are nowhere but in its memory.
//
// Invariants:
//   IC-1  a change of the tokens is in the file before it is answered
//   IC-2  when a token is revoked, all listeners have heard of it before Revoke returns
// Strand-confined, but Open and tls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/clock.h"
#include "pathways/identity/role.h"
#include "pathways/identity/tokens.h"
#include "pathways/net/certificates.h"
#include "pathways/net/tls.h"
#include "pathways/net/transport.h"

namespace pw::identity {

class ClusterIdentity {
 public:
  // Opens the folder, and makes it and what belongs there if need be. `clock`: a WallClock; it outlives this. PERMISSION_DENIED: others can read the folder.
  static absl::StatusOr<std::unique_ptr<ClusterIdentity>> Open(const std::string& folder, Clock* clock);

  // The certificate that the controller shows on TCP.
  const std::shared_ptr<net::Tls>& tls() const { return tls_; }
  std::string authority() const { return tls_->authority(); }
  // Makes the controller's certificate anew.
  absl::Status Renew();

  // Returns who a client is. Processes of this user need no token, and are operators; so is everybody where TLS is off. UNAUTHENTICATED.
  absl::StatusOr<Caller> AdmitClient(net::PeerProof proof, const std::string& token) const;
  // Takes a host in, by its certificate or by a join token, one use of which is spent. UNAUTHENTICATED, PERMISSION_DENIED.
  absl::Status AdmitWorker(net::PeerProof proof, const std::string& token);
  // Certifies a host's public key; returns the chain that it shows to others.
  absl::StatusOr<std::string> CertifyWorker(const std::string& public_key_der, const std::string& host_name) const;

  absl::StatusOr<std::string> CreateToken(const TokenRequest& request);
  std::vector<TokenInfo> ListTokens() const { return tokens_.List(clock_->Now()); }
  absl::Status RevokeToken(const std::string& id);
  // Hears the ids of revoked tokens.
  void OnRevoked(std::function<void(const std::string& id)> listener) { on_revoked_.push_back(std::move(listener)); }

 private:
  ClusterIdentity(std::string folder, Clock* clock) : folder_(std::move(folder)), clock_(clock) {}
  absl::Status Load();
  absl::Status Save();

  const std::string folder_;
  Clock* const clock_;
  net::Authority authority_;
  TokenTable tokens_;
  std::shared_ptr<net::Tls> tls_;
  std::vector<std::function<void(const std::string&)>> on_revoked_;
};

// Decides where there is no identity. Lets in processes of this user, and everybody where TLS is off.
absl::StatusOr<Caller> AdmitWithoutTokens(net::PeerProof proof);

}  // namespace pw::identity
