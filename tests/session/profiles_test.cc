// Tests profiles over the session protocol: what they show to whom, and when they end. The fake hosts' XSpaces are their own names, which come
// byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/users_test_base.h"

namespace pw::session {
namespace {

using ::testing::HasSubstr;

class ProfilesTest : public UsersTest {
 protected:
  std::shared_ptr<Session> Open(client::RemoteCluster& door) {
    auto session = t_.Await<std::shared_ptr<Session>>([&](auto done) { door.OpenSession({"a program"}, std::move(done)); });
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }
  absl::Status Start(client::RemoteCluster& door, SessionId session) {
    return t_.AwaitStatus([&](auto done) { door.StartProfile(session, {.everything = true}, std::move(done)); });
  }
  absl::StatusOr<ClusterProfile> Stop(client::RemoteCluster& door, SessionId session) {
    return t_.Await<ClusterProfile>([&](auto done) { door.StopProfile(session, std::move(done)); });
  }
  absl::StatusOr<std::string> Read(client::RemoteCluster& door, SessionId session, size_t host = 0) {
    std::string all;
    for (;;) {
      const auto piece = t_.Await<Bytes>([&](auto done) { door.ReadProfile(session, host, all.size(), std::move(done)); });
      if (!piece.ok()) return piece.status();
      if (piece->empty()) return all;
      all += piece->view();
    }
  }
  // What the hosts have been told to record, and to keep.
  const ::pathways::v1::HostConfig& Told() { return t_.workers[0]->config; }
};

TEST_F(ProfilesTest, AUsersShowsTheOwnSessionAlone) {
  auto ada = Door("ada");
  const auto session = Open(*ada);
  ASSERT_TRUE(Start(*ada, session->id()).ok());
  EXPECT_NE(Told().recording().id(), 0u);
  EXPECT_EQ(Told().recording().profile().session(), session->id().v);
  EXPECT_FALSE(Told().recording().profile().runtime()) << "which does not say whose its events are";
  const auto profile = Stop(*ada, session->id());
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->trace.perfetto_json, "") << "the trace shows all clients";
  ASSERT_EQ(profile->hosts.size(), 1u);
  EXPECT_EQ(profile->hosts[0].name, "w0");
  EXPECT_EQ(profile->hosts[0].bytes, 2u);
  EXPECT_EQ(*Read(*ada, session->id()), "w0");
}

TEST_F(ProfilesTest, AnOperatorsShowsAll) {
  auto olga = Door("olga");
  const auto session = Open(*olga);
  ASSERT_TRUE(Start(*olga, session->id()).ok());
  EXPECT_TRUE(Told().recording().has_profile());
  EXPECT_EQ(Told().recording().profile().session(), 0u);
  EXPECT_TRUE(Told().recording().profile().runtime());
  const auto profile = Stop(*olga, session->id());
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(profile->trace.perfetto_json, HasSubstr("traceEvents"));
}

TEST_F(ProfilesTest, AToolOfAnOperatorTakesOneWithoutAClientsSession) {
  auto olga = Door("olga");
  using Tool = std::shared_ptr<client::RemoteSession>;
  auto tool = t_.Await<Tool>([&](auto done) { olga->Observe(std::move(done)); });
  ASSERT_TRUE(tool.ok()) << tool.status();
  ASSERT_TRUE(Start(*olga, (*tool)->id()).ok());
  ASSERT_TRUE(Stop(*olga, (*tool)->id()).ok());
  EXPECT_EQ(*Read(*olga, (*tool)->id()), "w0");
  const uint64_t kept = Told().kept_profile();
  EXPECT_NE(kept, 0u);
  *tool = nullptr;
  t_.Run();
  EXPECT_EQ(Told().kept_profile(), 0u) << "it ends with the tool";
}

TEST_F(ProfilesTest, AToolOfAUserTakesNone) {
  auto ada = Door("ada"), rack1 = Door("rack1");
  using Tool = std::shared_ptr<client::RemoteSession>;
  for (client::RemoteCluster* door : {ada.get(), rack1.get()}) {
    const auto tool = t_.Await<Tool>([&](auto done) { door->Observe(std::move(done)); });
    ASSERT_TRUE(tool.ok()) << tool.status();
    EXPECT_TRUE(absl::IsPermissionDenied(Start(*door, (*tool)->id())));
    EXPECT_EQ(Told().recording().id(), 0u);
  }
}

TEST_F(ProfilesTest, NobodyElseStopsReadsOrDropsIt) {
  auto ada = Door("ada"), bob = Door("bob"), olga = Door("olga");
  const auto hers = Open(*ada), his = Open(*bob), operators = Open(*olga);
  ASSERT_TRUE(Start(*ada, hers->id()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*bob, his->id()))) << "one at a time";
  for (auto& [door, session] : {std::pair{bob.get(), his->id()}, {olga.get(), operators->id()}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(Stop(*door, session).status()));
    door->DropProfile(session);
    t_.Run();
  }
  ASSERT_TRUE(Stop(*ada, hers->id()).ok());
  EXPECT_TRUE(absl::IsNotFound(Read(*bob, his->id()).status()));
  EXPECT_TRUE(absl::IsNotFound(Read(*bob, hers->id()).status())) << "his door knows no such session";
  EXPECT_EQ(*Read(*ada, hers->id()), "w0");
  EXPECT_TRUE(absl::IsNotFound(Read(*ada, hers->id(), 1).status())) << "there is one host";
}

TEST_F(ProfilesTest, AUserCannotKeepOthersFromTheirsForLong) {
  auto ada = Door("ada"), bob = Door("bob");
  const auto hers = Open(*ada), his = Open(*bob);
  ASSERT_TRUE(Start(*ada, hers->id()).ok());
  t_.timers.Advance(kUndisturbedProfile - absl::Seconds(1));
  const absl::Status early = Start(*bob, his->id());
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_THAT(early.message(), HasSubstr("makes way after 1m"));
  t_.timers.Advance(absl::Seconds(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*ada, hers->id()))) << "it does not take the place of its own";
  ASSERT_TRUE(Start(*bob, his->id()).ok());
  EXPECT_EQ(Told().recording().profile().session(), his->id().v);
  EXPECT_THAT(Stop(*ada, hers->id()).status().message(), HasSubstr("when another user does"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*ada, hers->id()))) << "his has begun just now";
  ASSERT_TRUE(Stop(*bob, his->id()).ok());
}

TEST_F(ProfilesTest, AnOperatorsProfileMakesNoWayForAUser) {
  auto ada = Door("ada"), olga = Door("olga");
  const auto hers = Open(*ada), operators = Open(*olga);
  ASSERT_TRUE(Start(*olga, operators->id()).ok());
  t_.timers.Advance(2 * kUndisturbedProfile);
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*ada, hers->id())));
}

TEST_F(ProfilesTest, IsKeptUntilItIsDropped) {
  auto ada = Door("ada");
  const auto session = Open(*ada);
  ASSERT_TRUE(Start(*ada, session->id()).ok());
  ASSERT_TRUE(Stop(*ada, session->id()).ok());
  EXPECT_EQ(Told().recording().id(), 0u);
  EXPECT_NE(Told().kept_profile(), 0u);
  ada->DropProfile(session->id());
  t_.Run();
  EXPECT_EQ(Told().kept_profile(), 0u);
  EXPECT_TRUE(absl::IsNotFound(Read(*ada, session->id()).status()));
}

TEST_F(ProfilesTest, AnotherRecordingReplacesIt) {
  auto ada = Door("ada"), bob = Door("bob");
  const auto hers = Open(*ada), his = Open(*bob);
  ASSERT_TRUE(Start(*ada, hers->id()).ok());
  ASSERT_TRUE(Stop(*ada, hers->id()).ok());
  ASSERT_TRUE(Start(*bob, his->id()).ok());
  EXPECT_EQ(Told().kept_profile(), 0u);
  EXPECT_EQ(Told().recording().profile().session(), his->id().v);
  EXPECT_TRUE(absl::IsNotFound(Read(*ada, hers->id()).status()));
}

TEST_F(ProfilesTest, AnOperatorsTakesThePlaceOfAUsersButNotOfAnOperators) {
  auto ada = Door("ada"), olga = Door("olga");
  const auto hers = Open(*ada), operators = Open(*olga), more = Open(*olga);
  ASSERT_TRUE(Start(*ada, hers->id()).ok());
  ASSERT_TRUE(Start(*olga, operators->id()).ok());
  EXPECT_EQ(Told().recording().profile().session(), 0u);
  EXPECT_THAT(Stop(*ada, hers->id()).status().message(), HasSubstr("when an operator records"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*ada, hers->id())));
  EXPECT_TRUE(absl::IsFailedPrecondition(Start(*olga, more->id())));
  ASSERT_TRUE(Stop(*olga, operators->id()).ok());
  EXPECT_EQ(*Read(*olga, operators->id()), "w0");
}

TEST_F(ProfilesTest, EndsWithItsSession) {
  auto ada = Door("ada");
  auto session = Open(*ada);
  ASSERT_TRUE(Start(*ada, session->id()).ok());
  session = nullptr;
  t_.Run();
  EXPECT_EQ(Told().recording().id(), 0u);
  auto bob = Door("bob");
  const auto his = Open(*bob);
  EXPECT_TRUE(Start(*bob, his->id()).ok()) << "another one may begin";
}

TEST_F(ProfilesTest, OneThatIsForgottenIsGivenUp) {
  auto ada = Door("ada");
  const auto session = Open(*ada);
  ASSERT_TRUE(Start(*ada, session->id()).ok());
  t_.timers.Advance(kLongestProfile);
  EXPECT_EQ(Told().recording().id(), 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(Stop(*ada, session->id()).status()));
}

TEST_F(ProfilesTest, AHostThatIsLostIsNamed) {
  auto ada = Door("ada");
  const auto session = Open(*ada);
  ASSERT_TRUE(Start(*ada, session->id()).ok());
  ASSERT_TRUE(Stop(*ada, session->id()).ok());
  t_.workers[0]->Die();
  t_.Run();
  EXPECT_TRUE(absl::IsUnavailable(Read(*ada, session->id()).status()));
}

}  // namespace
}  // namespace pw::session
