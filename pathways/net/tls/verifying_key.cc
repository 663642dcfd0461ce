#include "pathways/net/tls/verifying_key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>

#include <vector>

namespace pw::net {
namespace {

constexpr size_t kCoordinateBytes = 32;
constexpr size_t kLeastModulusBytes = 256, kMostModulusBytes = 1024;
constexpr size_t kMostExponentBytes = 8;

using BuilderPtr = std::unique_ptr<OSSL_PARAM_BLD, OpensslFree<OSSL_PARAM_BLD_free>>;
using ParamsPtr = std::unique_ptr<OSSL_PARAM, OpensslFree<OSSL_PARAM_free>>;
using ContextPtr = std::unique_ptr<EVP_PKEY_CTX, OpensslFree<EVP_PKEY_CTX_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, OpensslFree<BN_free>>;
using SignaturePtr = std::unique_ptr<ECDSA_SIG, OpensslFree<ECDSA_SIG_free>>;

const unsigned char* Data(absl::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

NumberPtr Number(absl::string_view text) { return NumberPtr(BN_bin2bn(Data(text), static_cast<int>(text.size()), nullptr)); }

absl::StatusOr<KeyPtr> MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const ParamsPtr params(OSSL_PARAM_BLD_to_param(builder));
  const ContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (params == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return absl::InvalidArgumentError("it is not a public key: " + TakeOpensslError());
  }
  KeyPtr made(key);
  const ContextPtr check(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  if (check == nullptr || EVP_PKEY_public_check_quick(check.get()) != 1)
    return absl::InvalidArgumentError("it is not a sound public key: " + TakeOpensslError());
  return made;
}

// Returns an ECDSA signature in DER, which OpenSSL reads, from its two numbers of 32 bytes; empty if there is no memory.
std::vector<unsigned char> ToDer(absl::string_view signature) {
  const SignaturePtr pair(ECDSA_SIG_new());
  NumberPtr r = Number(signature.substr(0, kCoordinateBytes)), s = Number(signature.substr(kCoordinateBytes));
  if (pair == nullptr || r == nullptr || s == nullptr || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return {};
  r.release();  // now the pair's
  s.release();
  const int size = i2d_ECDSA_SIG(pair.get(), nullptr);
  if (size <= 0) return {};
  std::vector<unsigned char> der(static_cast<size_t>(size));
  unsigned char* at = der.data();
  return i2d_ECDSA_SIG(pair.get(), &at) == size ? der : std::vector<unsigned char>();
}

}  // namespace

absl::StatusOr<VerifyingKey> VerifyingKey::Rsa(absl::string_view modulus, absl::string_view exponent) {
  if (modulus.size() < kLeastModulusBytes || modulus.size() > kMostModulusBytes || exponent.empty() ||
      exponent.size() > kMostExponentBytes) {
    return absl::InvalidArgumentError("an RSA key has 2,048 to 8,192 bits");
  }
  const NumberPtr n = Number(modulus), e = Number(exponent);
  const BuilderPtr builder(OSSL_PARAM_BLD_new());
  if (n == nullptr || e == nullptr || builder == nullptr ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return absl::ResourceExhaustedError("there is no memory for a key");
  }
  absl::StatusOr<KeyPtr> key = MakeKey("RSA", builder.get());
  if (!key.ok()) return key.status();
  return VerifyingKey(*std::move(key), true);
}

absl::StatusOr<VerifyingKey> VerifyingKey::P256(absl::string_view x, absl::string_view y) {
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes)
    return absl::InvalidArgumentError("a coordinate of P-256 has 32 bytes");
  const std::string point = "\x04" + std::string(x) + std::string(y);  // uncompressed
  const BuilderPtr builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr || OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1) {
    return absl::ResourceExhaustedError("there is no memory for a key");
  }
  absl::StatusOr<KeyPtr> key = MakeKey("EC", builder.get());
  if (!key.ok()) return key.status();
  return VerifyingKey(*std::move(key), false);
}

bool VerifyingKey::Verifies(absl::string_view text, absl::string_view signature) const {
  std::vector<unsigned char> shown(signature.begin(), signature.end());
  if (!is_rsa_) {
    if (signature.size() != 2 * kCoordinateBytes) return false;
    shown = ToDer(signature);
  }
  const DigestPtr digest(EVP_MD_CTX_new());
  const bool sound = !shown.empty() && digest != nullptr &&
                     EVP_DigestVerifyInit_ex(digest.get(), nullptr, "SHA256", nullptr, nullptr, key_.get(), nullptr) == 1 &&
                     EVP_DigestVerify(digest.get(), shown.data(), shown.size(), Data(text), text.size()) == 1;
  ERR_clear_error();  // a wrong signature leaves one
  return sound;
}

}  // namespace pw::net
