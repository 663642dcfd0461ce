// TestAuthority: a cluster's authority, and a Tls for each of its processes, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/net/tls/tls.h"

namespace pw::net {

class TestAuthority {
 public:
  // Returns a Tls that trusts this authority and shows no certificate.
  std::shared_ptr<Tls> Client() const { return *Tls::Create(fingerprint()); }
  // Returns a Tls that also shows a certificate of this part. Its name is the authority's, as a host may have any name.
  std::shared_ptr<Tls> Of(Part part, absl::Time from = absl::Now(), absl::Duration life = absl::Hours(1)) const {
    std::shared_ptr<Tls> tls = Client();
    Show(tls.get(), part, from, life);
    return tls;
  }
  void Show(Tls* tls, Part part, absl::Time from = absl::Now(), absl::Duration life = absl::Hours(1)) const {
    const std::string key = *NewKey();
    EXPECT_TRUE(tls->Show(*Certify(authority_, *PublicKeyOf(key), part, "a test", from, from + life), key).ok());
  }
  // Returns a Tls of a server for browsers, with these names.
  std::shared_ptr<Tls> OfServer(const std::vector<std::string>& names) const {
    std::shared_ptr<Tls> tls = *Tls::ForVisitors();
    const std::string key = *NewKey();
    EXPECT_TRUE(
        tls->Show(*CertifyServer(authority_, *PublicKeyOf(key), names, absl::Now(), absl::Now() + absl::Hours(1)), key).ok());
    return tls;
  }
  std::string fingerprint() const { return *AuthorityFingerprint(authority_.certificate_pem); }

 private:
  const Authority authority_ = *MakeAuthority("a test", absl::Now());
};

}  // namespace pw::net
