#include "pathways/identity/cluster_identity.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/sha256.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {
namespace {

constexpr size_t kMostPemBytes = 16 << 10;
constexpr size_t kMostTokensBytes = 64 << 20;  // and of the quotas
constexpr absl::Duration kControllerLife = absl::Hours(24 * 7);
constexpr absl::Duration kWorkerLife = absl::Hours(24 * 30);

absl::Status PrepareFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return absl::UnavailableError(absl::StrCat("cannot make the folder ", folder, ": ", std::strerror(errno)));
  struct stat info = {};
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(folder, " is not a folder"));
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return absl::PermissionDeniedError(
        absl::StrCat(folder, " holds a cluster's secrets, and others can enter it or own it: chmod 700 ", folder));
  return absl::OkStatus();
}

absl::StatusOr<net::Authority> OpenAuthority(const std::string& folder, absl::Time now) {
  const std::string certificate = folder + "/authority.crt", key = folder + "/authority.key";
  absl::StatusOr<std::string> known = ReadPrivateFile(key, kMostPemBytes);
  if (known.ok()) {
    PW_ASSIGN_OR_RETURN(const std::string shown, ReadPrivateFile(certificate, kMostPemBytes));
    return net::Authority{shown, *std::move(known)};
  }
  if (!absl::IsNotFound(known.status())) return known.status();
  PW_ASSIGN_OR_RETURN(net::Authority made, net::MakeAuthority("Pathways cluster", now));
  PW_RETURN_IF_ERROR(WritePrivateFile(certificate, made.certificate_pem));  // the key last: with it, both are there
  PW_RETURN_IF_ERROR(WritePrivateFile(key, made.key_pem));
  return made;
}

// Returns whether a host with this proof must show a token: it has no certificate of its own, and is another user's or machine's process.
bool NeedsJoinToken(net::PeerProof proof) { return proof == net::PeerProof::kStranger || proof == net::PeerProof::kController; }

}  // namespace

absl::StatusOr<Caller> AdmitWithoutTokens(net::PeerProof proof) {
  if (proof == net::PeerProof::kOwn) return Caller{"", Role::kOperator};
  if (proof == net::PeerProof::kOpen) return Caller{"", Role::kOperator};
  return absl::UnauthenticatedError("this controller has no tokens: start it with --identity");
}

absl::StatusOr<std::unique_ptr<ClusterIdentity>> ClusterIdentity::Open(const std::string& folder, Clock* clock) {
  std::unique_ptr<ClusterIdentity> identity(new ClusterIdentity(folder, clock));
  PW_RETURN_IF_ERROR(identity->Load());
  return identity;
}

absl::Status ClusterIdentity::Load() {
  PW_RETURN_IF_ERROR(PrepareFolder(folder_));
  PW_ASSIGN_OR_RETURN(authority_, OpenAuthority(folder_, clock_->Now()));
  absl::StatusOr<std::string> text = ReadPrivateFile(folder_ + "/tokens", kMostTokensBytes);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  if (text.ok()) {
    PW_ASSIGN_OR_RETURN(tokens_, TokenTable::Parse(*text));
  }
  text = ReadPrivateFile(folder_ + "/quotas", kMostTokensBytes);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  if (text.ok()) {
    PW_ASSIGN_OR_RETURN(quotas_, QuotaTable::Parse(*text));
  }
  PW_ASSIGN_OR_RETURN(const std::string fingerprint, net::AuthorityFingerprint(authority_.certificate_pem));
  PW_ASSIGN_OR_RETURN(authority_ends_, net::EndOf(authority_.certificate_pem));
  PW_ASSIGN_OR_RETURN(tls_, net::Tls::Create(fingerprint));
  return Renew();
}

absl::Status ClusterIdentity::Renew() {
  const absl::Time now = clock_->Now();
  PW_ASSIGN_OR_RETURN(const std::string key, net::NewKey());
  PW_ASSIGN_OR_RETURN(const std::string public_key, net::PublicKeyOf(key));
  PW_ASSIGN_OR_RETURN(const std::string chain,
                      net::Certify(authority_, public_key, net::Part::kController, "controller", now, now + kControllerLife));
  PW_RETURN_IF_ERROR(tls_->Show(chain, key));
  for (const NamedServer& server : servers_) PW_RETURN_IF_ERROR(Renew(server));
  return absl::OkStatus();
}

absl::Status ClusterIdentity::Renew(const NamedServer& server) const {
  const absl::Time now = clock_->Now();
  PW_ASSIGN_OR_RETURN(const std::string key, net::NewKey());
  PW_ASSIGN_OR_RETURN(const std::string public_key, net::PublicKeyOf(key));
  PW_ASSIGN_OR_RETURN(const std::string chain,
                      net::CertifyServer(authority_, public_key, server.names, now, now + kControllerLife));
  return server.tls->Show(chain, key);
}

absl::StatusOr<std::shared_ptr<net::Tls>> ClusterIdentity::ServeNames(std::vector<std::string> names) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<net::Tls> tls, net::Tls::ForVisitors());
  NamedServer server{std::move(names), tls};
  PW_RETURN_IF_ERROR(Renew(server));
  servers_.push_back(std::move(server));
  return tls;
}

absl::Status ClusterIdentity::Save() { return WritePrivateFile(folder_ + "/tokens", tokens_.ToText()); }

absl::StatusOr<Caller> ClusterIdentity::AdmitClient(net::PeerProof proof, const std::string& token) const {
  if (token.empty()) {
    if (absl::StatusOr<Caller> own = AdmitWithoutTokens(proof); own.ok()) return own;
    return absl::UnauthenticatedError(
        "this cluster asks for a token: an operator makes one by 'pathways token create', and 'pathways login' stores it");
  }
  if (issuer_.has_value() && Issuer::HasForm(token)) return issuer_->Admit(token, clock_->Now());
  PW_ASSIGN_OR_RETURN(const TokenInfo info, tokens_.Check(token, clock_->Now()));
  return Caller{info.of.user, info.of.role, info.id};
}

absl::Status ClusterIdentity::CheckWorker(net::PeerProof proof, const std::string& token) const {
  if (!NeedsJoinToken(proof)) return absl::OkStatus();
  if (token.empty()) {
    return absl::UnauthenticatedError(
        "this cluster asks its workers for a join token: 'pathways token create --role worker' makes one, 'pathways worker "
        "--token-file' shows it");
  }
  PW_ASSIGN_OR_RETURN(const TokenInfo info, tokens_.Check(token, clock_->Now()));
  if (info.of.role != Role::kUser) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the token ", info.id, " is that of a user, not of a worker: a host cannot join with it"));
}

absl::Status ClusterIdentity::AdmitWorker(net::PeerProof proof, const std::string& token) {
  PW_RETURN_IF_ERROR(CheckWorker(proof, token));
  if (!NeedsJoinToken(proof)) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const TokenInfo info, tokens_.Use(token, clock_->Now()));
  return info.of.uses.has_value() ? Save() : absl::OkStatus();
}

absl::StatusOr<std::string> ClusterIdentity::CertifyWorker(const std::string& public_key_der,
                                                           const std::string& host_name) const {
  const absl::Time now = clock_->Now();
  return net::Certify(authority_, public_key_der, net::Part::kWorker, host_name, now, now + kWorkerLife);
}

// HMAC-SHA256 of the session, under a key that only holders of the authority's key can make.
std::string ClusterIdentity::SessionKey(uint64_t epoch, uint64_t session, const std::string& user) const {
  std::string inner = Sha256(absl::StrCat("keys of sessions\n", authority_.key_pem));
  inner.resize(64, 0);
  std::string outer = inner;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return Sha256(outer + Sha256(absl::StrCat(inner, epoch, " ", session, " ", user)));
}

absl::StatusOr<std::string> ClusterIdentity::CreateToken(const TokenRequest& request) {
  PW_ASSIGN_OR_RETURN(std::string token, tokens_.Create(request, clock_->Now(), RandomKey()));
  PW_RETURN_IF_ERROR(Save());
  PW_LOG_INFO << "made the token " << TokenId(token) << " for " << RoleName(request.role) << " '" << request.user << "'";
  return token;
}

absl::Status ClusterIdentity::RevokeToken(const std::string& id) {
  PW_RETURN_IF_ERROR(tokens_.Revoke(id));
  PW_RETURN_IF_ERROR(Save());
  PW_LOG_INFO << "revoked the token " << id;
  for (const auto& listener : on_revoked_) listener(id);
  return absl::OkStatus();
}

absl::Status ClusterIdentity::ChangeQuota(const std::string& user, const Quota& limits, const std::vector<std::string>& removed) {
  QuotaTable changed = quotas_;
  PW_RETURN_IF_ERROR(changed.Change(user, limits, removed));
  PW_RETURN_IF_ERROR(WritePrivateFile(folder_ + "/quotas", changed.ToText()));
  quotas_ = std::move(changed);
  PW_LOG_INFO << "changed the quota of " << user;
  return absl::OkStatus();
}

}  // namespace pw::identity
