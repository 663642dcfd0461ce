#include "pathways/net/tls/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/tls/openssl_ptr.h"

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

bool Names(const std::string& chain, const std::string& host) {
  const BioPtr bio(BIO_new_mem_buf(chain.data(), static_cast<int>(chain.size())));
  const CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  return X509_check_host(certificate.get(), host.c_str(), 0, 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate.get(), host.c_str(), 0) == 1;
}

TEST(CertificatesTest, AServersCertificateHasItsNamesAndAddresses) {
  const Authority authority = *MakeAuthority("a", kNow);
  const std::string key = *PublicKeyOf(*NewKey());
  const std::string chain =
      *CertifyServer(authority, key, {"head.example", "10.0.0.7", "fe80::7", "under_score"}, kNow, kNow + absl::Hours(1));
  for (const char* host : {"head.example", "10.0.0.7", "fe80::7", "under_score"}) EXPECT_TRUE(Names(chain, host)) << host;
  for (const char* host : {"example", "10.0.0.8", "::7", "controller.pathways", "worker.pathways"})
    EXPECT_FALSE(Names(chain, host)) << host;
  EXPECT_EQ(*AuthorityFingerprint(chain), *AuthorityFingerprint(authority.certificate_pem));
}

TEST(CertificatesTest, AServerCannotHaveANameThatIsAPartOrHidesAnother) {
  const Authority authority = *MakeAuthority("a", kNow);
  const std::string key = *PublicKeyOf(*NewKey());
  for (const char* name : {"", "controller.pathways", "Worker.Pathways", "controller.pathways.", "a,DNS:controller.pathways",
                           "*.example", "a b", "[::1]"}) {
    const auto chain = CertifyServer(authority, key, {"head", name}, kNow, kNow + absl::Hours(1));
    EXPECT_TRUE(absl::IsInvalidArgument(chain.status())) << name;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CertifyServer(authority, key, {}, kNow, kNow + absl::Hours(1)).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(CertifyServer(authority, key, {std::string(300, 'a')}, kNow, kNow + absl::Hours(1)).status()));
}

TEST(CertificatesTest, TextsThatAreNoCertificatesAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(AuthorityFingerprint("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EndOf("-----BEGIN CERTIFICATE-----\n").status()));
  EXPECT_FALSE(PublicKeyOf("no key").ok());
}

}  // namespace
}  // namespace pw::net
