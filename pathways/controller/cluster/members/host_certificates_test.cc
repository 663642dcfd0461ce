#include "pathways/controller/cluster/members/host_certificates.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/net/tls/tls.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

::pathways::v1::Hello HelloOf(const std::string& name, std::string public_key) {
  ::pathways::v1::Hello hello;
  hello.set_host_name(name);
  hello.set_public_key(std::move(public_key));
  return hello;
}

std::string PublicKey() { return *net::PublicKeyOf(*net::NewKey()); }

class HostCertificatesTest : public ::testing::Test {
 protected:
  void Tick(absl::Duration after) {
    sent_.clear();
    certificates_.OnTick(start_ + after);
  }
  std::vector<HostId> asked() const {
    std::vector<HostId> hosts;
    for (const auto& [host, command] : sent_) {
      if (command.has_new_key()) hosts.push_back(host);
    }
    return hosts;
  }

  WallClock clock_;
  const std::unique_ptr<identity::ClusterIdentity> identity_ =
      *identity::ClusterIdentity::Open(absl::StrCat(::testing::TempDir(), "pw_host_certificates_", ::getpid()), &clock_);
  const absl::Time start_ = absl::FromUnixSeconds(1000);
  std::vector<std::pair<HostId, ::pathways::v1::Command>> sent_;
  HostCertificates certificates_{identity_.get(),
                                 [this](HostId host, ::pathways::v1::Command command) { sent_.emplace_back(host, std::move(command)); }};
};

TEST_F(HostCertificatesTest, EachHostIsAskedForANewKeyADayAfterTheLast) {
  const std::string first = certificates_.Certify(HostId(1), HelloOf("a", PublicKey()), start_);
  certificates_.Certify(HostId(2), HelloOf("b", PublicKey()), start_ + absl::Hours(1));
  EXPECT_EQ(*net::AuthorityFingerprint(first), identity_->authority());
  Tick(absl::Hours(23));
  EXPECT_THAT(sent_, IsEmpty());
  Tick(absl::Hours(24));
  EXPECT_THAT(asked(), ElementsAre(HostId(1)));
  Tick(absl::Hours(25));
  EXPECT_THAT(asked(), ElementsAre(HostId(2)));
  Tick(absl::Hours(48));
  EXPECT_THAT(asked(), ElementsAre(HostId(1))) << "a host that does not answer is asked again";
  certificates_.Forget(HostId(1));
  Tick(absl::Hours(72));
  EXPECT_THAT(asked(), ElementsAre(HostId(2))) << "a lost host is not";
}

TEST_F(HostCertificatesTest, ANewKeyIsCertifiedOnceForEachTimeThatTheHostIsAsked) {
  const std::string old_key = *net::NewKey(), new_key = *net::NewKey();
  const auto tls = *net::Tls::Create("");
  const std::string first = certificates_.Certify(HostId(1), HelloOf("a", *net::PublicKeyOf(old_key)), start_);
  EXPECT_TRUE(tls->Show(first, old_key).ok());
  EXPECT_FALSE(certificates_.OnPublicKey(HostId(1), PublicKey()).ok()) << "it was not asked";
  Tick(absl::Hours(24));
  ASSERT_TRUE(certificates_.OnPublicKey(HostId(1), *net::PublicKeyOf(new_key)).ok());
  ASSERT_EQ(sent_.size(), 2u);
  const std::string chain = sent_[1].second.certificate().chain();
  EXPECT_EQ(*net::AuthorityFingerprint(chain), identity_->authority());
  EXPECT_TRUE(tls->Show(chain, new_key).ok());
  EXPECT_FALSE(tls->Show(chain, old_key).ok());
  EXPECT_FALSE(certificates_.OnPublicKey(HostId(1), PublicKey()).ok()) << "it has been answered";
  Tick(absl::Hours(48));
  EXPECT_FALSE(certificates_.OnPublicKey(HostId(1), "not a key").ok());
  EXPECT_FALSE(certificates_.OnPublicKey(HostId(2), PublicKey()).ok()) << "it has never joined";
}

TEST_F(HostCertificatesTest, AHostWithoutAUsableKeyGetsNone) {
  EXPECT_EQ(certificates_.Certify(HostId(1), HelloOf("a", ""), start_), "");
  EXPECT_EQ(certificates_.Certify(HostId(2), HelloOf("b", "not a key"), start_), "");
  Tick(absl::Hours(48));
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(HostCertificatesTest, WithoutAnAuthorityThereAreNone) {
  HostCertificates none(nullptr, [](HostId, const ::pathways::v1::Command&) { ADD_FAILURE() << "nothing to send"; });
  EXPECT_EQ(none.Certify(HostId(1), HelloOf("a", PublicKey()), start_), "");
  none.OnTick(start_ + absl::Hours(48));
}

}  // namespace
}  // namespace pw::controller
