#include "pathways/controller/cluster/members/host_certificates.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"
#include "pathways/net/tls/certificates.h"

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

class HostCertificatesTest : public ::testing::Test {
 protected:
  void Tick(absl::Duration after) {
    sent_.clear();
    certificates_.OnTick(start_ + after);
  }
  std::vector<HostId> sent_to() const {
    std::vector<HostId> hosts;
    for (const auto& [host, chain] : sent_) hosts.push_back(host);
    return hosts;
  }

  WallClock clock_;
  const std::unique_ptr<identity::ClusterIdentity> identity_ =
      *identity::ClusterIdentity::Open(absl::StrCat(::testing::TempDir(), "pw_host_certificates_", ::getpid()), &clock_);
  const absl::Time start_ = absl::FromUnixSeconds(1000);
  std::vector<std::pair<HostId, std::string>> sent_;
  HostCertificates certificates_{identity_.get(),
                                 [this](HostId host, std::string chain) { sent_.emplace_back(host, std::move(chain)); }};
};

TEST_F(HostCertificatesTest, EachIsMadeAnewADayAfterTheLast) {
  const std::string first = certificates_.Certify(HostId(1), HelloOf("a", *net::PublicKeyOf(*net::NewKey())), start_);
  certificates_.Certify(HostId(2), HelloOf("b", *net::PublicKeyOf(*net::NewKey())), start_ + absl::Hours(1));
  EXPECT_EQ(*net::AuthorityFingerprint(first), identity_->authority());
  Tick(absl::Hours(23));
  EXPECT_THAT(sent_to(), IsEmpty());
  Tick(absl::Hours(24));
  ASSERT_THAT(sent_to(), ElementsAre(HostId(1)));
  EXPECT_EQ(*net::AuthorityFingerprint(sent_[0].second), identity_->authority());
  EXPECT_NE(sent_[0].second, first);
  Tick(absl::Hours(25));
  EXPECT_THAT(sent_to(), ElementsAre(HostId(2)));
  certificates_.Forget(HostId(1));
  Tick(absl::Hours(72));
  EXPECT_THAT(sent_to(), ElementsAre(HostId(2))) << "a lost host gets none";
}

TEST_F(HostCertificatesTest, AHostWithoutAUsableKeyGetsNone) {
  EXPECT_EQ(certificates_.Certify(HostId(1), HelloOf("a", ""), start_), "");
  EXPECT_EQ(certificates_.Certify(HostId(2), HelloOf("b", "not a key"), start_), "");
  Tick(absl::Hours(48));
  EXPECT_THAT(sent_to(), IsEmpty());
}

TEST_F(HostCertificatesTest, WithoutAnAuthorityThereAreNone) {
  HostCertificates none(nullptr, [](HostId, const std::string&) { ADD_FAILURE() << "nothing to send"; });
  EXPECT_EQ(none.Certify(HostId(1), HelloOf("a", *net::PublicKeyOf(*net::NewKey())), start_), "");
  none.OnTick(start_ + absl::Hours(48));
}

}  // namespace
}  // namespace pw::controller
