// ClusterIdentity: a cluster's authority and tokens, in a folder of its own. It authenticates clients and hosts.
//
// The folder has mode 0700, its files 0600:
//   authority.crt, authority.key   the certificate authority, made when the folder is first used
//   tokens                         the table of tokens, with hashes instead of secrets (tokens.h)
//   quotas                         limits for users (quotas.h); not there until one is set
//   epoch                          the number of the cluster's last controller (epochs.h)
//
// The controller's own certificates and their keys are made anew at each start, and daily after that. They exist only in its memory.
//
// Invariants:
//   IC-1  a change of the tokens or the quotas is in its file before it is answered
//   IC-2  when a token is revoked, all listeners have been called before RevokeToken returns
// Strand-confined, except Open, tls and ServeNames.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/threads/clock.h"
#include "pathways/identity/issuer.h"
#include "pathways/identity/quotas.h"
#include "pathways/identity/role.h"
#include "pathways/identity/tokens.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/net/tls/tls.h"
#include "pathways/net/transport.h"

namespace pw::identity {

class ClusterIdentity {
 public:
  // Opens the folder, and makes it and its missing files. `clock` is a WallClock and outlives this. PERMISSION_DENIED: other
  // users can read the folder.
  static absl::StatusOr<std::unique_ptr<ClusterIdentity>> Open(const std::string& folder, Clock* clock);

  // Returns the Tls with the certificate that the controller shows on TCP.
  const std::shared_ptr<net::Tls>& tls() const { return tls_; }
  std::string authority() const { return tls_->authority(); }
  // Returns the authority's certificate (PEM), which people show to their browsers, and the time at which it ends.
  const std::string& authority_certificate() const { return authority_.certificate_pem; }
  absl::Time authority_ends() const { return authority_ends_; }
  // Makes a Tls for a server of the controller that browsers reach by these names and addresses (net/own_names.h). Renew renews its certificate, too.
  // Called before the strand's first task. INVALID_ARGUMENT: a name that cannot be in a certificate.
  absl::StatusOr<std::shared_ptr<net::Tls>> ServeNames(std::vector<std::string> names);
  // Replaces the controller's certificates by new ones.
  absl::Status Renew();

  // Returns a client's user and role. Without a token, processes of this user are operators, and so is every client if TLS is
  // off. UNAUTHENTICATED: a token is missing or wrong.
  absl::StatusOr<Caller> AdmitClient(net::PeerProof proof, const std::string& token) const;
  // Admits clients by the tokens of this identity provider, too.
  void Trust(Issuer issuer) { issuer_ = std::move(issuer); }
  Issuer* issuer() { return issuer_.has_value() ? &*issuer_ : nullptr; }  // null: none is trusted
  // Admits a host by its certificate or by a join token, and spends a use of the token. UNAUTHENTICATED, PERMISSION_DENIED.
  absl::Status AdmitWorker(net::PeerProof proof, const std::string& token);
  // Decides as AdmitWorker does, and spends nothing: for a further connection of a host.
  absl::Status CheckWorker(net::PeerProof proof, const std::string& token) const;
  // Certifies a host's public key, and returns the chain that the host shows to its peers.
  absl::StatusOr<std::string> CertifyWorker(const std::string& public_key_der, const std::string& host_name) const;

  // Returns the key of a session (session.proto, SessionHello) that the controller with this epoch has opened for this user. Every controller with this
  // folder derives the same one; nobody else can.
  std::string SessionKey(uint64_t epoch, uint64_t session, const std::string& user) const;

  absl::StatusOr<std::string> CreateToken(const TokenRequest& request);
  std::vector<TokenInfo> ListTokens() const { return tokens_.List(clock_->Now()); }
  absl::Status RevokeToken(const std::string& id);
  const QuotaTable& quotas() const { return quotas_; }
  absl::Status ChangeQuota(const std::string& user, const Quota& limits, const std::vector<std::string>& removed);
  absl::Time Now() const { return clock_->Now(); }  // of the wall clock
  // Adds a listener for the ids of revoked tokens.
  void OnRevoked(std::function<void(const std::string& id)> listener) { on_revoked_.push_back(std::move(listener)); }

 private:
  ClusterIdentity(std::string folder, Clock* clock) : folder_(std::move(folder)), clock_(clock) {}
  struct NamedServer {
    std::vector<std::string> names;
    std::shared_ptr<net::Tls> tls;
  };
  absl::Status Load();
  absl::Status Save();
  absl::Status Renew(const NamedServer& server) const;

  const std::string folder_;
  Clock* const clock_;
  net::Authority authority_;
  absl::Time authority_ends_;
  TokenTable tokens_;
  QuotaTable quotas_;
  std::optional<Issuer> issuer_;  // nullopt: only the cluster's own tokens count
  std::shared_ptr<net::Tls> tls_;
  std::vector<NamedServer> servers_;
  std::vector<std::function<void(const std::string&)>> on_revoked_;
};

// Authenticates clients of a cluster without an identity: admits processes of this user, and every client if TLS is off.
absl::StatusOr<Caller> AdmitWithoutTokens(net::PeerProof proof);

}  // namespace pw::identity
