#include "pathways/net/tls/certificates.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {
namespace {

constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 365 * 10);
constexpr absl::Duration kClockSkew = absl::Minutes(10);  // machines whose clocks are behind take new certificates
constexpr size_t kMostNameBytes = 64;                     // of a common name, by X.520
constexpr size_t kMostHostBytes = 253;                    // of a DNS name
constexpr size_t kMostHosts = 256;                        // of a server's certificate
constexpr char kParts[] = ".pathways";                    // the domain of the names of parts

absl::Status Failed(absl::string_view what) { return absl::InternalError(absl::StrCat(what, ": ", TakeOpensslError())); }

BioPtr Reader(const std::string& pem) { return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

std::string Text(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return Failed("cannot read a private key");
  return key;
}

absl::StatusOr<std::vector<CertificatePtr>> ReadCertificates(const std::string& pem) {
  const BioPtr reader = Reader(pem);
  std::vector<CertificatePtr> chain;
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) chain.emplace_back(certificate);
  ERR_clear_error();  // the end of the text counts as an error
  if (chain.empty()) return absl::InvalidArgumentError("there is no certificate in the text");
  return chain;
}

std::string WriteCertificate(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Text(bio.get());
}

std::string WriteKey(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return Text(bio.get());
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

bool SetSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // serial numbers are positive
  BIGNUM* number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool set = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

// Fills in all but the extensions and the signature.
absl::StatusOr<CertificatePtr> NewCertificate(const std::string& name, EVP_PKEY* key, X509* issuer, absl::Time now,
                                              absl::Time end) {
  CertificatePtr certificate(X509_new());
  X509* const raw = certificate.get();
  X509_NAME* const subject = X509_get_subject_name(raw);
  // An authority's name differs from the names that it certifies: equal names would count as self-signed.
  const auto* organization = reinterpret_cast<const unsigned char*>(issuer == nullptr ? "Pathways authority" : "Pathways");
  const std::string shown = name.substr(0, kMostNameBytes);
  const auto* text = reinterpret_cast<const unsigned char*>(shown.data());
  std::time_t from = absl::ToTimeT(now - kClockSkew), to = absl::ToTimeT(end);
  const bool ok = X509_set_version(raw, 2) == 1 && SetSerial(raw) &&
                  X509_time_adj_ex(X509_getm_notBefore(raw), 0, 0, &from) != nullptr &&
                  X509_time_adj_ex(X509_getm_notAfter(raw), 0, 0, &to) != nullptr && X509_set_pubkey(raw, key) == 1 &&
                  X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, organization, -1, -1, 0) == 1 &&
                  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, static_cast<int>(shown.size()), -1, 0) == 1 &&
                  X509_set_issuer_name(raw, issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1;
  if (!ok) return Failed("cannot make a certificate");
  return certificate;
}

absl::StatusOr<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("cannot make a key");
  return key;
}

bool IsP256(EVP_PKEY* key) {
  char group[64] = "";
  size_t size = 0;
  return EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, group, sizeof(group), &size) == 1 &&
         std::string(group, size) == "prime256v1";
}

// The text of a certificate, as OpenSSL's configuration files write it.
struct Subject {
  std::string name;  // for people to read
  std::string usage;
  std::string alternative_names;
};

absl::StatusOr<std::string> Sign(const Authority& authority, const std::string& public_key_der, const Subject& subject,
                                 absl::Time now, absl::Time end) {
  const auto* der = reinterpret_cast<const unsigned char*>(public_key_der.data());
  const KeyPtr key(d2i_PUBKEY(nullptr, &der, static_cast<long>(public_key_der.size())));  // NOLINT(google-runtime-int)
  if (key == nullptr || !IsP256(key.get())) {
    ERR_clear_error();
    return absl::InvalidArgumentError("what is to be certified is not a P-256 key");
  }
  PW_ASSIGN_OR_RETURN(const KeyPtr signer, ReadKey(authority.key_pem));
  PW_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> issuers, ReadCertificates(authority.certificate_pem));
  X509* const issuer = issuers[0].get();
  PW_ASSIGN_OR_RETURN(const CertificatePtr certificate, NewCertificate(subject.name, key.get(), issuer, now, end));
  X509* const raw = certificate.get();
  if (!AddExtension(raw, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(raw, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(raw, issuer, NID_ext_key_usage, subject.usage.c_str()) ||
      !AddExtension(raw, issuer, NID_subject_alt_name, subject.alternative_names.c_str()) ||
      !AddExtension(raw, issuer, NID_authority_key_identifier, "keyid") || X509_sign(raw, signer.get(), EVP_sha256()) == 0)
    return Failed("cannot sign a certificate");
  return WriteCertificate(raw) + WriteCertificate(issuer);
}

bool IsAddress(const std::string& text) {
  in6_addr address = {};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 || ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// Returns "DNS:NAME" or "IP:ADDRESS". All other characters are refused: a comma would add names of the writer's choice.
absl::StatusOr<std::string> AlternativeName(const std::string& name) {
  if (IsAddress(name)) return absl::StrCat("IP:", name);
  const bool sound = !name.empty() && name.size() <= kMostHostBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
  if (!sound) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is neither a host name nor an address"));
  if (absl::EndsWithIgnoreCase(name, kParts) || absl::EndsWithIgnoreCase(name, absl::StrCat(kParts, ".")))
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' names a part of the cluster: a server for browsers needs another name"));
  return absl::StrCat("DNS:", name);
}

}  // namespace

const char* DnsNameOf(Part part) { return part == Part::kController ? "controller.pathways" : "worker.pathways"; }

absl::StatusOr<Authority> MakeAuthority(const std::string& name, absl::Time now) {
  PW_ASSIGN_OR_RETURN(const KeyPtr key, MakeKey());
  PW_ASSIGN_OR_RETURN(const CertificatePtr certificate, NewCertificate(name, key.get(), nullptr, now, now + kAuthorityLife));
  X509* const raw = certificate.get();
  if (!AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(raw, raw, NID_key_usage, "critical,keyCertSign") ||
      !AddExtension(raw, raw, NID_subject_key_identifier, "hash") || X509_sign(raw, key.get(), EVP_sha256()) == 0)
    return Failed("cannot make a certificate authority");
  return Authority{WriteCertificate(raw), WriteKey(key.get())};
}

absl::StatusOr<std::string> NewKey() {
  PW_ASSIGN_OR_RETURN(const KeyPtr key, MakeKey());
  return WriteKey(key.get());
}

absl::StatusOr<std::string> PublicKeyOf(const std::string& key_pem) {
  PW_ASSIGN_OR_RETURN(const KeyPtr key, ReadKey(key_pem));
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key.get(), &der);
  if (size <= 0) return Failed("cannot write a public key");
  std::string result(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return result;
}

absl::StatusOr<std::string> Certify(const Authority& authority, const std::string& public_key_der, Part part,
                                    const std::string& name, absl::Time now, absl::Time end) {
  const char* const usage = part == Part::kController ? "serverAuth" : "serverAuth,clientAuth";
  return Sign(authority, public_key_der, {name, usage, absl::StrCat("DNS:", DnsNameOf(part))}, now, end);
}

absl::StatusOr<std::string> CertifyServer(const Authority& authority, const std::string& public_key_der,
                                          const std::vector<std::string>& names, absl::Time now, absl::Time end) {
  if (names.empty() || names.size() > kMostHosts)
    return absl::InvalidArgumentError(absl::StrCat("a server's certificate has 1 to ", kMostHosts, " names, not ", names.size()));
  std::vector<std::string> written;
  for (const std::string& name : names) {
    PW_ASSIGN_OR_RETURN(written.emplace_back(), AlternativeName(name));
  }
  return Sign(authority, public_key_der, {names[0], "serverAuth", absl::StrJoin(written, ",")}, now, end);
}

absl::StatusOr<std::string> AuthorityFingerprint(const std::string& chain_pem) {
  PW_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadCertificates(chain_pem));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(chain.back().get(), EVP_sha256(), digest, &size) != 1) return Failed("cannot hash a certificate");
  return std::string(reinterpret_cast<char*>(digest), size);
}

absl::StatusOr<absl::Time> EndOf(const std::string& chain_pem) {
  PW_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> chain, ReadCertificates(chain_pem));
  std::tm time = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(chain[0].get()), &time) != 1) return Failed("cannot read the end of a certificate");
  return absl::FromTM(time, absl::UTCTimeZone());
}

}  // namespace pw::net
