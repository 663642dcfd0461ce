#include "pathways/net/tls/tls.h"

#include <openssl/pem.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {
namespace {

constexpr size_t kFingerprintBytes = 32;
constexpr int kMostChainBytes = 8 << 10;  // of the certificates that a peer shows
// AES-128 is first: it is the fastest on processors with instructions for it, and all three are safe.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

bool HasFingerprint(X509* certificate, const std::string& fingerprint) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  return X509_digest(certificate, EVP_sha256(), digest, &size) == 1 &&
         absl::string_view(reinterpret_cast<char*>(digest), size) == fingerprint;
}

// OpenSSL's callback: decides on the chain that a peer has shown. `self`: the Tls.
int Verify(X509_STORE_CTX* shown, void* self) {
  const std::string authority = static_cast<const Tls*>(self)->authority();
  STACK_OF(X509)* const chain = X509_STORE_CTX_get0_untrusted(shown);
  const StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  bool found = false;
  for (int i = 0; i < sk_X509_num(chain) && !found; ++i) {
    X509* const one = sk_X509_value(chain, i);
    found = HasFingerprint(one, authority) && X509_STORE_add_cert(store.get(), one) == 1;
  }
  if (!found) {
    X509_STORE_CTX_set_error(shown, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
    return 0;
  }
  if (X509_STORE_CTX_init(context.get(), store.get(), X509_STORE_CTX_get0_cert(shown), chain) != 1) return 0;
  // The purpose that the connection asks for: a server's certificate, or a client's.
  const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(shown, SSL_get_ex_data_X509_STORE_CTX_idx()));
  X509_STORE_CTX_set_default(context.get(), SSL_is_server(ssl) == 1 ? "ssl_client" : "ssl_server");
  if (X509_verify_cert(context.get()) == 1) return 1;
  X509_STORE_CTX_set_error(shown, X509_STORE_CTX_get_error(context.get()));
  return 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Tls>> Tls::Create(const std::string& authority) {
  if (!authority.empty() && authority.size() != kFingerprintBytes)
    return absl::InvalidArgumentError("the fingerprint of a certificate authority has 32 bytes");
  std::shared_ptr<Tls> tls(new Tls(authority));
  PW_ASSIGN_OR_RETURN(tls->context_, tls->NewContext());
  return tls;
}

absl::StatusOr<std::shared_ptr<Tls>> Tls::ForVisitors() {
  std::shared_ptr<Tls> tls(new Tls("", true));
  PW_ASSIGN_OR_RETURN(tls->context_, tls->NewContext());
  return tls;
}

absl::StatusOr<std::shared_ptr<ssl_ctx_st>> Tls::NewContext() const {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const raw = context.get();
  if (raw == nullptr || SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(raw, kCiphers) != 1 ||
      SSL_CTX_set1_groups_list(raw, "X25519:P-256") != 1)
    return absl::InternalError(absl::StrCat("cannot prepare TLS: ", TakeOpensslError()));
  SSL_CTX_set_num_tickets(raw, 0);  // connections last; none is resumed
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(raw, kMostChainBytes);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(raw, for_visitors_ ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(raw, &Verify, const_cast<Tls*>(this));
  return context;
}

absl::Status Tls::Show(const std::string& chain_pem, const std::string& key_pem) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<SSL_CTX> context, NewContext());
  const BioPtr chain(BIO_new_mem_buf(chain_pem.data(), static_cast<int>(chain_pem.size())));
  const BioPtr key_text(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
  const CertificatePtr own(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
  const KeyPtr key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  bool ok = own != nullptr && key != nullptr && SSL_CTX_use_certificate(context.get(), own.get()) == 1 &&
            SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 && SSL_CTX_check_private_key(context.get()) == 1;
  while (ok) {
    const CertificatePtr next(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    ok = SSL_CTX_add1_chain_cert(context.get(), next.get()) == 1;
  }
  if (!ok) return absl::InvalidArgumentError(absl::StrCat("cannot use a certificate: ", TakeOpensslError()));
  ERR_clear_error();  // the end of the text counts as an error
  PW_ASSIGN_OR_RETURN(const std::string authority, AuthorityFingerprint(chain_pem));
  PW_ASSIGN_OR_RETURN(const absl::Time end, EndOf(chain_pem));
  std::lock_guard<std::mutex> lock(mu_);
  if (authority_.empty()) authority_ = authority;
  context_ = std::move(context);
  shows_ = true;
  shown_until_ = end;
  return absl::OkStatus();
}

bool Tls::shows_certificate() const {
  std::lock_guard<std::mutex> lock(mu_);
  return shows_;
}

absl::Time Tls::shown_until() const {
  std::lock_guard<std::mutex> lock(mu_);
  return shown_until_;
}

std::string Tls::authority() const {
  std::lock_guard<std::mutex> lock(mu_);
  return authority_;
}

ssl_st* Tls::NewConnection() const {
  std::lock_guard<std::mutex> lock(mu_);
  return SSL_new(context_.get());  // holds the context
}

std::string FingerprintText(absl::string_view fingerprint) {
  return absl::StrCat("sha256:", absl::BytesToHexString(fingerprint));
}

absl::StatusOr<std::string> ParseFingerprint(absl::string_view text) {
  absl::string_view hex = text;
  if (!absl::ConsumePrefix(&hex, "sha256:") || hex.size() != 2 * kFingerprintBytes ||
      hex.find_first_not_of("0123456789abcdef") != absl::string_view::npos)
    return absl::InvalidArgumentError(
        "the fingerprint of a certificate authority has the form sha256: and 64 hexadecimal digits");
  return absl::HexStringToBytes(hex);
}

}  // namespace pw::net
