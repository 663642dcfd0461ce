#include "pathways/net/tls/certificates.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

TEST(CertificatesTest, AChainEndsWithItsAuthority) {
  const Authority authority = *MakeAuthority("cluster 'a'", kNow);
  const std::string key = *NewKey();
  const std::string chain = *Certify(authority, *PublicKeyOf(key), Part::kWorker, "host0", kNow, kNow + absl::Hours(1));
  EXPECT_EQ(*AuthorityFingerprint(chain), *AuthorityFingerprint(authority.certificate_pem));
  EXPECT_EQ(AuthorityFingerprint(chain)->size(), 32u);
  EXPECT_EQ(*EndOf(chain), kNow + absl::Hours(1));
}

TEST(CertificatesTest, AuthoritiesOfOneNameDiffer) {
  EXPECT_NE(*AuthorityFingerprint(MakeAuthority("a", kNow)->certificate_pem),
            *AuthorityFingerprint(MakeAuthority("a", kNow)->certificate_pem));
}

TEST(CertificatesTest, NamesOfAnyLengthAndContentAreCertified) {
  const Authority authority = *MakeAuthority(std::string(300, 'x'), kNow);
  const std::string key = *PublicKeyOf(*NewKey());
  for (const std::string& name : {std::string(1000, 'h'), std::string("a/b=c,d\n"), std::string("h")})
    EXPECT_TRUE(Certify(authority, key, Part::kWorker, name, kNow, kNow + absl::Hours(1)).ok()) << name;
}

TEST(CertificatesTest, WhatIsNoKeyIsNotCertified) {
  const Authority authority = *MakeAuthority("a", kNow);
  std::string cut = *PublicKeyOf(*NewKey());
  cut.pop_back();
  for (const std::string& key : {std::string(), std::string("key"), cut}) {
    const auto chain = Certify(authority, key, Part::kWorker, "h", kNow, kNow + absl::Hours(1));
    EXPECT_TRUE(absl::IsInvalidArgument(chain.status())) << chain.status();
    EXPECT_THAT(chain.status().message(), HasSubstr("P-256"));
  }
}

TEST(CertificatesTest, TextsThatAreNoCertificatesAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(AuthorityFingerprint("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf("-----BEGIN CERTIFICATE-----\n").status()));
  EXPECT_FALSE(PublicKeyOf("no key").ok());
}

}  // namespace
}  // namespace pw::net
