// Tests roles: every cell of the table in docs/security.md, and the few answers that strangers get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/users_test_base.h"

namespace pw::session {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RolesTest : public UsersTest {
 protected:
  // Opens a session of this user.
  absl::StatusOr<std::shared_ptr<Session>> Open(client::RemoteCluster& door, const std::string& description) {
    return t_.Await<std::shared_ptr<Session>>([&](auto done) { door.OpenSession({description}, std::move(done)); });
  }
  std::string Tokens(client::RemoteCluster& door, const ::pathways::v1::TokenQuestion& question, absl::Status* status) {
    auto text = t_.Await<std::string>([&](auto done) { door.AskTokens(question, std::move(done)); });
    *status = text.status();
    return text.ok() ? *text : "";
  }
  static ::pathways::v1::TokenQuestion Listing() {
    ::pathways::v1::TokenQuestion question;
    question.set_list(true);
    return question;
  }
};

TEST_F(RolesTest, WithoutATokenNobodyEnters) {
  for (const std::string& token : {std::string(), std::string("pw-guess"), tokens_["ada"] + "0"}) {
    tokens_["nobody"] = token;
    auto door = Door("nobody");
    EXPECT_TRUE(absl::IsUnauthenticated(Open(*door, "a stranger").status())) << token;
    EXPECT_FALSE(t_.Await<std::string>([&](auto done) { door->GetStatus(std::move(done)); }).ok());
  }
  EXPECT_EQ(t_.service->num_sessions(), 0u);
}

TEST_F(RolesTest, UsersHaveSessionsAndWorkersHaveNone) {
  auto ada = Door("ada"), olga = Door("olga"), worker = Door("rack1");
  EXPECT_TRUE(Open(*ada, "ada's").ok());
  EXPECT_TRUE(Open(*olga, "olga's").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Open(*worker, "a worker's").status()));
}

TEST_F(RolesTest, UsersSeeTheirOwnSessionsAndOperatorsAll) {
  auto ada = Door("ada"), bob = Door("bob"), olga = Door("olga"), worker = Door("rack1");
  const auto first = Open(*ada, "ada's program"), second = Open(*bob, "bob's program");
  ASSERT_TRUE(first.ok() && second.ok());
  const auto status = [&](client::RemoteCluster& door) {
    return *t_.Await<std::string>([&](auto done) { door.GetStatus(std::move(done)); });
  };
  EXPECT_THAT(status(*ada), HasSubstr("ada's program"));
  EXPECT_THAT(status(*ada), Not(HasSubstr("bob's program")));
  EXPECT_THAT(status(*bob), Not(HasSubstr("ada's program")));
  EXPECT_THAT(status(*olga), HasSubstr("ada's program"));
  EXPECT_THAT(status(*olga), HasSubstr("bob's program"));
  EXPECT_THAT(status(*olga), HasSubstr("\"user\":\"ada\""));
  EXPECT_THAT(status(*worker), Not(HasSubstr("program\"")));
}

TEST_F(RolesTest, SharesAndSuspensionsAreTheOwnersAndTheOperators) {
  auto ada = Door("ada"), bob = Door("bob"), olga = Door("olga"), worker = Door("rack1");
  const auto session = *Open(*ada, "ada's");
  const auto change = [&](client::RemoteCluster& door) {
    return t_.Await<gang::Share>([&](auto done) { door.ChangeShare(session->id(), {.weight = 2}, std::move(done)); }).status();
  };
  const auto suspend = [&](client::RemoteCluster& door, bool resume) {
    return t_.Await<SuspendReport>([&](auto done) { door.SuspendClient(session->id(), resume, std::move(done)); }).status();
  };
  EXPECT_TRUE(change(*ada).ok()) << change(*ada);
  EXPECT_TRUE(change(*olga).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(change(*bob)));
  EXPECT_TRUE(absl::IsPermissionDenied(change(*worker)));
  EXPECT_THAT(change(*bob).message(), HasSubstr("'bob' has the role of a user"));
  EXPECT_TRUE(absl::IsPermissionDenied(suspend(*bob, false)));
  EXPECT_TRUE(absl::IsPermissionDenied(suspend(*worker, false)));
  EXPECT_TRUE(suspend(*ada, false).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(suspend(*bob, true)));
  EXPECT_TRUE(suspend(*ada, true).ok());
  EXPECT_TRUE(suspend(*olga, false).ok());
  EXPECT_TRUE(suspend(*olga, true).ok());
}

TEST_F(RolesTest, SessionsThatAreNotThereAreNotToldFromThoseOfOthers) {
  auto ada = Door("ada"), bob = Door("bob");
  const auto session = *Open(*ada, "ada's");
  const auto change = [&](SessionId id) {
    return t_.Await<gang::Share>([&](auto done) { bob->ChangeShare(id, {.weight = 2}, std::move(done)); }).status();
  };
  EXPECT_EQ(change(session->id()), change(SessionId(4711)));
}

TEST_F(RolesTest, DrainingRecordingAndTokensAreTheOperators) {
  for (const std::string user : {"ada", "rack1", "olga"}) {
    auto door = Door(user);
    absl::Status tokens;
    const absl::Status drained =
        t_.Await<DrainReport>([&](auto done) { door->DrainHost("w0", false, std::move(done)); }).status();
    const absl::Status undone = t_.Await<DrainReport>([&](auto done) { door->DrainHost("w0", true, std::move(done)); }).status();
    const std::string list = Tokens(*door, Listing(), &tokens);
    if (user == "olga") {
      EXPECT_TRUE(drained.ok()) << drained;
      EXPECT_TRUE(undone.ok()) << undone;
      EXPECT_THAT(list, HasSubstr("\"user\":\"ada\""));
    } else {
      for (const absl::Status& status : {drained, undone, tokens})
        EXPECT_TRUE(absl::IsPermissionDenied(status)) << user << ": " << status;
      EXPECT_TRUE(absl::IsPermissionDenied(
          t_.Await<ClusterTrace>([&](auto done) { door->RecordTrace(absl::Seconds(1), 0, std::move(done)); }).status()));
    }
  }
}

TEST_F(RolesTest, ProcessesOfTheControllersUserAreOperators) {
  t_.network.SetProofOfAccepted(net::PeerProof::kOwn);
  auto door = Door("");
  absl::Status tokens;
  EXPECT_THAT(Tokens(*door, Listing(), &tokens), HasSubstr("olga"));
  EXPECT_TRUE(t_.Await<DrainReport>([&](auto done) { door->DrainHost("w0", false, std::move(done)); }).ok());
}

TEST_F(RolesTest, ATokenOfTheWireIsOneOfTheTableAndEntersAtOnce) {
  auto olga = Door("olga");
  ::pathways::v1::TokenQuestion question;
  question.mutable_create()->set_user("eve");
  question.mutable_create()->set_role("user");
  absl::Status status;
  const std::string text = Tokens(*olga, question, &status);
  ASSERT_TRUE(status.ok()) << status;
  const size_t at = text.find("token ") + 6;
  tokens_["eve"] = text.substr(at, text.find('\n', at) - at);
  auto eve = Door("eve");
  EXPECT_TRUE(Open(*eve, "eve's").ok());
}

TEST_F(RolesTest, RevokingATokenEndsItsSessionsAtOnce) {
  auto ada = Door("ada"), bob = Door("bob"), olga = Door("olga");
  const auto first = *Open(*ada, "ada's"), second = *Open(*bob, "bob's");
  EXPECT_EQ(t_.service->num_sessions(), 2u);
  ::pathways::v1::TokenQuestion question;
  question.set_revoke(identity::TokenId(tokens_["ada"]));
  absl::Status status;
  Tokens(*olga, question, &status);
  ASSERT_TRUE(status.ok()) << status;
  t_.Run();
  EXPECT_EQ(t_.service->num_sessions(), 1u) << "bob's goes on";
  const auto answer = t_.Await<SliceState>([&](auto done) { ada->AddSlice(first->id(), {.count = 1}, std::move(done)); });
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(absl::IsUnauthenticated(Open(*ada, "ada's again").status()));
  EXPECT_TRUE(Open(*bob, "bob's second").ok());
}

// ---- strangers

class Silent : public net::Connection::Handler {
 public:
  explicit Silent(ServedCluster* t) {
    t->transport.Connect(t->service_address, absl::InfiniteDuration(),
                         [this](auto connected) { connection = *std::move(connected); });
    t->Run();
    connection->Start(this);
    t->Run();
  }
  void OnFrame(net::Frame) override {}
  void OnClosed(const absl::Status&) override { closed = true; }
  std::unique_ptr<net::Connection> connection;
  bool closed = false;
};

TEST_F(RolesTest, StrangersGetFiveSecondsAndFourKilobytes) {
  Silent silent(&t_), loud(&t_);
  loud.connection->Send(std::string((4 << 10) + 1, 'x'));
  t_.Run();
  EXPECT_TRUE(loud.closed);
  t_.timers.Advance(absl::Seconds(4));
  EXPECT_FALSE(silent.closed);
  t_.timers.Advance(absl::Seconds(2));
  EXPECT_TRUE(silent.closed);
  EXPECT_EQ(t_.service->num_links(), 0u);
}

TEST_F(RolesTest, ACrowdOfStrangersKeepsNobodyOut) {
  std::vector<std::unique_ptr<Silent>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<Silent>(&t_));
  EXPECT_LE(t_.service->num_links(), net::Strangers<uint64_t>::kMost);
  EXPECT_TRUE(crowd.front()->closed);
  EXPECT_FALSE(crowd.back()->closed);
  auto ada = Door("ada");
  EXPECT_TRUE(Open(*ada, "ada's").ok());
}

}  // namespace
}  // namespace pw::session
