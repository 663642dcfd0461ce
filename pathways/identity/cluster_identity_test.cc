#include "pathways/identity/cluster_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::identity {
namespace {

using net::PeerProof;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FixedClock : public Clock {
 public:
  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  absl::Time Now() override { return now; }
};

class ClusterIdentityTest : public ::testing::Test {
 protected:
  std::unique_ptr<ClusterIdentity> Open() { return *ClusterIdentity::Open(folder_, &clock_); }
  std::string Contents(const std::string& name) {
    std::ifstream file(folder_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  FixedClock clock_;
  const std::string folder_ = absl::StrCat(::testing::TempDir(), "pw_identity_", ::getpid(), "_",
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ClusterIdentityTest, TheFolderIsPrivateAndLastsLongerThanAProcess) {
  auto first = Open();
  const std::string token = *first->CreateToken({"ada"});
  const std::string authority = first->authority();
  first = nullptr;
  struct stat info = {};
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const char* name : {"authority.crt", "authority.key", "tokens"}) {
    ASSERT_EQ(::stat((folder_ + "/" + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
    EXPECT_THAT(Contents(name), Not(HasSubstr(token.substr(token.rfind('-') + 1))));
  }
  const auto second = Open();
  EXPECT_EQ(second->authority(), authority);
  EXPECT_EQ(second->AdmitClient(PeerProof::kStranger, token)->user, "ada");
}

TEST_F(ClusterIdentityTest, AFolderOfOthersIsRefused) {
  Open();
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(ClusterIdentity::Open(folder_, &clock_).status()));
}

TEST_F(ClusterIdentityTest, ClientsAreWhoTheirTokenSays) {
  const auto identity = Open();
  const std::string user = *identity->CreateToken({"ada"}), host = *identity->CreateToken({"rack1", Role::kWorker});
  EXPECT_TRUE(identity->AdmitClient(PeerProof::kOwn, "")->is_operator());
  EXPECT_FALSE(identity->AdmitClient(PeerProof::kOwn, user)->is_operator()) << "a token counts, also where none is needed";
  EXPECT_EQ(identity->AdmitClient(PeerProof::kStranger, user)->token_id, TokenId(user));
  EXPECT_EQ(identity->AdmitClient(PeerProof::kStranger, host)->role, Role::kWorker);
  for (PeerProof proof : {PeerProof::kStranger, PeerProof::kWorker, PeerProof::kController})
    EXPECT_TRUE(absl::IsUnauthenticated(identity->AdmitClient(proof, "").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(AdmitWithoutTokens(PeerProof::kStranger).status()));
}

TEST_F(ClusterIdentityTest, HostsJoinByTokenOnceAndByCertificateEver) {
  auto identity = Open();
  const std::string user = *identity->CreateToken({"ada"});
  const std::string host = *identity->CreateToken({"rack1", Role::kWorker, absl::InfiniteFuture(), 1});
  EXPECT_TRUE(absl::IsUnauthenticated(identity->AdmitWorker(PeerProof::kStranger, "")));
  EXPECT_TRUE(absl::IsPermissionDenied(identity->AdmitWorker(PeerProof::kStranger, user)));
  EXPECT_TRUE(absl::IsUnauthenticated(identity->CheckWorker(PeerProof::kStranger, "")));
  EXPECT_TRUE(absl::IsPermissionDenied(identity->CheckWorker(PeerProof::kStranger, user)));
  EXPECT_TRUE(identity->CheckWorker(PeerProof::kStranger, host).ok()) << "no use is spent";
  EXPECT_TRUE(identity->AdmitWorker(PeerProof::kStranger, host).ok());
  identity = Open();
  EXPECT_TRUE(absl::IsUnauthenticated(identity->AdmitWorker(PeerProof::kStranger, host)))
      << "its one use is spent, also after a restart";
  EXPECT_TRUE(identity->AdmitWorker(PeerProof::kWorker, "").ok());
  EXPECT_TRUE(identity->AdmitWorker(PeerProof::kOwn, "").ok());
}

TEST_F(ClusterIdentityTest, RevokedTokensAreHeardOf) {
  const auto identity = Open();
  const std::string token = *identity->CreateToken({"ada"});
  std::vector<std::string> heard;
  identity->OnRevoked([&](const std::string& id) { heard.push_back(id); });
  EXPECT_TRUE(absl::IsNotFound(identity->RevokeToken("00000000")));
  EXPECT_TRUE(identity->RevokeToken(TokenId(token)).ok());
  EXPECT_THAT(heard, ElementsAre(TokenId(token)));
  EXPECT_TRUE(absl::IsUnauthenticated(Open()->AdmitClient(PeerProof::kStranger, token).status()));
}

TEST_F(ClusterIdentityTest, HostsAreCertifiedForAMonth) {
  const auto identity = Open();
  const std::string chain = *identity->CertifyWorker(*net::PublicKeyOf(*net::NewKey()), "host0");
  EXPECT_EQ(*net::AuthorityFingerprint(chain), identity->authority());
  EXPECT_EQ(*net::EndOf(chain), clock_.now + absl::Hours(24 * 30));
  EXPECT_FALSE(identity->CertifyWorker("no key", "host0").ok());
}

TEST_F(ClusterIdentityTest, AServerForBrowsersKeepsItsNamesAndIsRenewedWithTheOthers) {
  const auto identity = Open();
  const auto tls = *identity->ServeNames({"head.example", "10.0.0.7"});
  EXPECT_TRUE(tls->shows_certificate() && tls->is_for_visitors());
  const absl::Time first = tls->shown_until();
  EXPECT_EQ(first, identity->tls()->shown_until());
  clock_.now += absl::Hours(24);
  ASSERT_TRUE(identity->Renew().ok());
  EXPECT_EQ(tls->shown_until(), first + absl::Hours(24));
  EXPECT_GT(identity->authority_ends(), clock_.now + absl::Hours(24 * 365));
  EXPECT_TRUE(absl::IsInvalidArgument(identity->ServeNames({"controller.pathways"}).status()));
}

}  // namespace
}  // namespace pw::identity
