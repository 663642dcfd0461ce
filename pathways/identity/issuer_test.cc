#include "pathways/identity/issuer.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/identity/cluster_identity.h"

namespace pw::identity {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kIssued = absl::FromUnixSeconds(1'800'000'000);
constexpr char kUrl[] = "https://id.example.org/realm";

std::string Encode(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

// A provider of identities: a key pair that signs tokens and publishes its public half.
class Provider {
 public:
  explicit Provider(bool is_rsa, std::string id = "k1")
      : is_rsa_(is_rsa), id_(std::move(id)), key_(is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256")) {}

  std::string Jwk() const {
    if (is_rsa_)
      return absl::StrCat(R"({"kty":"RSA","use":"sig","kid":")", id_, R"(","n":")", Number(OSSL_PKEY_PARAM_RSA_N, 256),
                          R"(","e":"AQAB"})");
    return absl::StrCat(R"({"kty":"EC","crv":"P-256","kid":")", id_, R"(","x":")", Number(OSSL_PKEY_PARAM_EC_PUB_X, 32),
                        R"(","y":")", Number(OSSL_PKEY_PARAM_EC_PUB_Y, 32), R"("})");
  }
  std::string Header() const { return absl::StrCat(R"({"alg":")", is_rsa_ ? "RS256" : "ES256", R"(","kid":")", id_, R"("})"); }

  std::string Sign(const std::string& claims) const { return SignAs(Header(), claims); }
  std::string SignAs(const std::string& header, const std::string& claims) const {
    const std::string text = absl::StrCat(Encode(header), ".", Encode(claims));
    return absl::StrCat(text, ".", Encode(Signature(text)));
  }

 private:
  std::string Number(const char* name, int size) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), name, &number);
    std::string bytes(static_cast<size_t>(size), '\0');
    BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), size);
    BN_free(number);
    return Encode(bytes);
  }
  std::string Signature(const std::string& text) const {
    EVP_MD_CTX* digest = EVP_MD_CTX_new();
    size_t size = 0;
    const auto* data = reinterpret_cast<const unsigned char*>(text.data());
    EVP_DigestSignInit_ex(digest, nullptr, "SHA256", nullptr, nullptr, key_.get(), nullptr);
    EVP_DigestSign(digest, nullptr, &size, data, text.size());
    std::string signature(size, '\0');
    auto* out = reinterpret_cast<unsigned char*>(signature.data());
    EVP_DigestSign(digest, out, &size, data, text.size());
    EVP_MD_CTX_free(digest);
    signature.resize(size);
    return is_rsa_ ? signature : TwoNumbers(signature);
  }
  static std::string TwoNumbers(const std::string& der) {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));  // NOLINT(google-runtime-int): OpenSSL's type
    std::string bytes(64, '\0');
    auto* out = reinterpret_cast<unsigned char*>(bytes.data());
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + 32, 32);
    ECDSA_SIG_free(pair);
    return bytes;
  }

  const bool is_rsa_;
  const std::string id_;
  const net::KeyPtr key_;
};

std::string Set(const std::string& keys) { return absl::StrCat(R"({"keys":[)", keys, "]}"); }

std::string Claims(const std::string& more = "", const std::string& user = "ada", int64_t end_s = 3600,
                   const std::string& audience = R"("pathways")", const std::string& url = kUrl) {
  return absl::StrCat(R"({"iss":")", url, R"(","aud":)", audience, R"(,"sub":")", user, R"(","exp":)",
                      absl::ToUnixSeconds(kIssued) + end_s, more, "}");
}

Issuer Trusting(const Provider& provider, IssuerOptions options = {kUrl, "pathways"}) {
  Issuer issuer = *Issuer::Create(std::move(options));
  issuer.SetKeys(*KeySet::Parse(Set(provider.Jwk())));
  return issuer;
}

class IssuerTest : public ::testing::TestWithParam<bool> {
 protected:
  const Provider provider_{GetParam()};
  const Issuer issuer_ = Trusting(provider_);

  std::string WhyNot(const std::string& token) const {
    const absl::Status status = issuer_.Admit(token, kIssued).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_THAT(status.message(), Not(HasSubstr(token)));
    return std::string(status.message());
  }
};
INSTANTIATE_TEST_SUITE_P(Keys, IssuerTest, ::testing::Bool(), [](const auto& of) { return of.param ? "Rsa" : "P256"; });

TEST_P(IssuerTest, ATokenSaysWhoseItIs) {
  const std::string token = provider_.Sign(Claims());
  EXPECT_TRUE(Issuer::HasForm(token));
  const Caller ada = *issuer_.Admit(token, kIssued);
  EXPECT_EQ(ada.user, "ada");
  EXPECT_EQ(ada.role, Role::kUser);
  EXPECT_EQ(issuer_.Admit(provider_.Sign(Claims("", "bob", 3600, R"(["other","pathways"])")), kIssued)->user, "bob");
}

TEST_P(IssuerTest, NoOtherTextIsAToken) {
  const std::string token = provider_.Sign(Claims());
  for (size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] = wrong[i] == 'A' ? 'Q' : 'A';  // differ in a bit that counts, also in the last character of a part
    EXPECT_FALSE(issuer_.Admit(wrong, kIssued).ok()) << i;
    EXPECT_FALSE(issuer_.Admit(token.substr(0, i), kIssued).ok()) << i;
  }
}

TEST_P(IssuerTest, AnotherKeyOfTheSameNameSignsNothing) {
  EXPECT_THAT(WhyNot(Provider(GetParam()).Sign(Claims())), HasSubstr("wrong signature"));
  EXPECT_THAT(WhyNot(Provider(GetParam(), "k2").Sign(Claims())), HasSubstr("does not publish"));
}

TEST_P(IssuerTest, TheAlgorithmIsTheKeysOwn) {
  for (const char* name : {"none", "HS256", "PS256"})
    EXPECT_THAT(WhyNot(provider_.SignAs(absl::StrCat(R"({"alg":")", name, R"(","kid":"k1"})"), Claims())),
                HasSubstr("another algorithm"));
  EXPECT_THAT(WhyNot(absl::StrCat(Encode(R"({"alg":"none"})"), ".", Encode(Claims()), ".")), HasSubstr("another algorithm"));
}

TEST_P(IssuerTest, WhatATokenIsForCounts) {
  EXPECT_THAT(WhyNot(provider_.Sign(Claims("", "ada", 3600, R"("mail")"))), HasSubstr("is not for 'pathways'"));
  EXPECT_THAT(WhyNot(provider_.Sign(Claims("", "ada", 3600, R"("pathways")", "https://elsewhere.org"))),
              HasSubstr("another issuer"));
  EXPECT_THAT(WhyNot(provider_.SignAs(R"({"alg":"RS256","kid":"k1","crit":["x"]})", Claims())), HasSubstr("extension"));
}

TEST_P(IssuerTest, ATokenHasATime) {
  EXPECT_TRUE(issuer_.Admit(provider_.Sign(Claims("", "ada", -59)), kIssued).ok()) << "clocks differ a little";
  EXPECT_THAT(WhyNot(provider_.Sign(Claims("", "ada", -60))), HasSubstr("ended at"));
  EXPECT_THAT(WhyNot(provider_.Sign(absl::StrCat(R"({"iss":")", kUrl, R"(","aud":"pathways","sub":"ada"})"))),
              HasSubstr("has no end"));
  EXPECT_THAT(WhyNot(provider_.Sign(Claims(absl::StrCat(R"(,"nbf":)", absl::ToUnixSeconds(kIssued) + 3600)))),
              HasSubstr("begins only"));
}

TEST_P(IssuerTest, NamesOfUsersAreThoseOfTheCluster) {
  EXPECT_THAT(WhyNot(provider_.Sign(Claims("", "../etc"))), HasSubstr("has no user's name in 'sub'"));
  EXPECT_THAT(WhyNot(provider_.Sign(absl::StrCat(R"({"iss":")", kUrl, R"(","aud":"pathways","exp":9e9})"))),
              HasSubstr("no user's name"));
}

TEST_P(IssuerTest, AFieldMakesOperators) {
  const Issuer issuer = Trusting(provider_, {kUrl, "pathways", "email", "groups=ml-operators"});
  const std::string mail = R"(,"email":"ada@example.org")";
  EXPECT_EQ(issuer.Admit(provider_.Sign(Claims(mail)), kIssued)->role, Role::kUser);
  const Caller ada = *issuer.Admit(provider_.Sign(Claims(absl::StrCat(mail, R"(,"groups":["staff","ml-operators"])"))), kIssued);
  EXPECT_EQ(ada.user, "ada@example.org");
  EXPECT_TRUE(ada.is_operator());
}

TEST_P(IssuerTest, AnUnknownKeyIsAskedFor) {
  Issuer issuer = Trusting(provider_);
  int asked = 0;
  issuer.OnUnknownKey([&] { ++asked; });
  const Provider later(GetParam(), "k2");
  EXPECT_TRUE(issuer.Admit(provider_.Sign(Claims()), kIssued).ok());
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(issuer.Admit(later.Sign(Claims()), kIssued).ok());
  EXPECT_EQ(asked, 1);
  issuer.SetKeys(*KeySet::Parse(Set(later.Jwk())));
  EXPECT_TRUE(issuer.Admit(later.Sign(Claims()), kIssued).ok());
  EXPECT_FALSE(issuer.Admit(provider_.Sign(Claims()), kIssued).ok()) << "withdrawn";
}

TEST_P(IssuerTest, NobodyPassesForTheClustersOwnUsers) {
  for (const char* user : kOwnUsers) EXPECT_THAT(WhyNot(provider_.Sign(Claims("", user))), HasSubstr("the cluster's own"));
}

TEST_P(IssuerTest, ATokenHasASize) {
  const auto padded = [&](size_t size) {
    return provider_.Sign(Claims(absl::StrCat(R"(,"x":")", std::string(size, 'x'), R"(")")));
  };
  EXPECT_TRUE(issuer_.Admit(padded(1500), kIssued).ok());
  EXPECT_THAT(WhyNot(padded(3000)), HasSubstr("more than 3072 bytes"));
  // Deep JSON ends with a status, not with the stack.
  EXPECT_THAT(WhyNot(absl::StrCat(Encode(absl::StrCat("{\"a\":", std::string(2000, '['))), ".e30.AA")), HasSubstr("is damaged"));
}

TEST_P(IssuerTest, ItsTokensMakeNobodyAWorker) {
  WallClock clock;
  const std::string folder = absl::StrCat(::testing::TempDir(), "pw_issuer_", ::getpid(), GetParam() ? "_rsa" : "_p256");
  const auto identity = *ClusterIdentity::Open(folder, &clock);
  const std::string token = provider_.Sign(
      absl::StrCat(R"({"iss":")", kUrl, R"(","aud":"pathways","sub":"ada","exp":)", absl::ToUnixSeconds(absl::Now()) + 60, "}"));
  EXPECT_FALSE(identity->AdmitClient(net::PeerProof::kStranger, token).ok()) << "no provider is trusted";
  EXPECT_EQ(identity->issuer(), nullptr);
  identity->Trust(Trusting(provider_));
  EXPECT_EQ(identity->AdmitClient(net::PeerProof::kStranger, token)->user, "ada");
  EXPECT_TRUE(absl::IsUnauthenticated(identity->AdmitWorker(net::PeerProof::kStranger, token)));
  const std::string own = *identity->CreateToken({"bob", Role::kUser});
  EXPECT_EQ(identity->AdmitClient(net::PeerProof::kStranger, own)->user, "bob") << "the cluster's tokens still count";
}

TEST(IssuerOptionsTest, AnAudienceIsNeeded) {
  EXPECT_THAT(Issuer::Create({kUrl, ""}).status().message(), HasSubstr("audience"));
  EXPECT_FALSE(Issuer::Create({"http://id.example.org", "pathways"}).ok());
  EXPECT_FALSE(Issuer::Create({kUrl, "pathways", "sub", "groups"}).ok());
  const Issuer issuer = *Issuer::Create({kUrl, "pathways"});
  EXPECT_THAT(issuer.Admit(Provider(false).Sign(Claims()), kIssued).status().message(), HasSubstr("cannot be checked yet"));
}

TEST(KeySetTest, KeysThatCheckNoTokensAreLeftOut) {
  const Provider provider(false);
  EXPECT_EQ(
      KeySet::Parse(Set(absl::StrCat(R"({"kty":"OKP","kid":"a"},{"kty":"RSA","use":"enc","kid":"b"},)", provider.Jwk())))->size(),
      1u);
  for (const char* text : {"", "[]", "{}", R"({"keys":[]})", R"({"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]})",
                           R"({"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(KeySet::Parse(text).status())) << text;
  }
}

}  // namespace
}  // namespace pw::identity
