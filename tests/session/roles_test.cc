// Tests roles: every cell of the table in docs/security.md, and the few answers that strangers get.
#include <functional>
#include <string>
#include <vector>

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

TEST_F(RolesTest, ASliceOfAnotherSessionNamesNothing) {
  auto ada = Door("ada"), bob = Door("bob");
  const auto hers = *Open(*ada, "ada's"), his = *Open(*bob, "bob's");
  const auto slice = t_.Await<SliceState>([&](auto done) { ada->AddSlice(hers->id(), {.count = 1}, std::move(done)); });
  ASSERT_TRUE(slice.ok()) << slice.status();
  const auto release = [&](client::RemoteCluster& door, SessionId session) {
    return t_.AwaitStatus([&](auto done) { door.ReleaseSlice(session, slice->slice, std::move(done)); });
  };
  const auto awaited =
      t_.Await<SliceState>([&](auto done) { bob->AwaitSlice(his->id(), slice->slice, absl::Seconds(1), std::move(done)); });
  EXPECT_TRUE(absl::IsNotFound(awaited.status())) << awaited.status();
  EXPECT_TRUE(absl::IsNotFound(release(*bob, his->id())));
  EXPECT_TRUE(release(*ada, hers->id()).ok());
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

// ---- the whole table

class TableTest : public RolesTest {
 protected:
  using Cluster = client::RemoteCluster;
  struct Row {
    const char* may;
    std::function<absl::Status(Cluster&)> ask;
    bool user, operators, worker, own;  // in the order of the table's columns
  };
  static absl::Status Found(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? absl::OkStatus() : absl::PermissionDeniedError("it is not in the answer");
  }
  absl::Status InStatus(Cluster& door, const std::string& part) {
    const auto report = t_.Await<std::string>([&](auto done) { door.GetStatus(std::move(done)); });
    return report.ok() ? Found(*report, part) : report.status();
  }
  absl::Status InQuotas(Cluster& door, const std::string& part) {
    ::pathways::v1::QuotaQuestion question;
    question.set_list(true);
    const auto report = t_.Await<std::string>([&](auto done) { door.AskQuotas(question, std::move(done)); });
    return report.ok() ? Found(*report, part) : report.status();
  }
  absl::Status ChangeQuota(Cluster& door) {
    ::pathways::v1::QuotaQuestion question;
    question.mutable_change()->set_user("bob");
    question.mutable_change()->set_sessions(7);
    return t_.Await<std::string>([&](auto done) { door.AskQuotas(question, std::move(done)); }).status();
  }
  absl::Status Ask(Cluster& door, const ::pathways::v1::TokenQuestion& question) {
    absl::Status status;
    Tokens(door, question, &status);
    return status;
  }
  absl::Status MakeToken(Cluster& door) {
    ::pathways::v1::TokenQuestion question;
    question.mutable_create()->set_user("eve");
    question.mutable_create()->set_role("user");
    return Ask(door, question);
  }
  absl::Status RevokeToken(Cluster& door) {
    ::pathways::v1::TokenQuestion question;
    question.set_revoke(identity::TokenId(*identity_->CreateToken({"mallory"})));
    return Ask(door, question);
  }
  absl::Status Compute(Cluster& door) {
    const auto session = Open(door, "a program");
    if (!session.ok()) return session.status();
    return t_.Await<SliceState>([&](auto done) { door.AddSlice((*session)->id(), {.count = 1}, std::move(done)); }).status();
  }
  absl::Status Share(Cluster& door, SessionId session) {
    return t_.Await<gang::Share>([&](auto done) { door.ChangeShare(session, {.weight = 2}, std::move(done)); }).status();
  }
  absl::Status Suspend(Cluster& door, SessionId session, bool resume) {
    return t_.Await<SuspendReport>([&](auto done) { door.SuspendClient(session, resume, std::move(done)); }).status();
  }
  absl::Status Drain(Cluster& door, bool undo) {
    return t_.Await<DrainReport>([&](auto done) { door.DrainHost("w0", undo, std::move(done)); }).status();
  }
  // A trace of no time is refused, but only for those who may record one.
  absl::Status Trace(Cluster& door) {
    const auto trace = t_.Await<ClusterTrace>([&](auto done) { door.RecordTrace(absl::ZeroDuration(), 0, std::move(done)); });
    return absl::IsInvalidArgument(trace.status()) ? absl::OkStatus() : trace.status();
  }
  absl::Status ProfileAll(Cluster& door) {
    const auto tool = t_.Await<std::shared_ptr<client::RemoteSession>>([&](auto done) { door.Observe(std::move(done)); });
    if (!tool.ok()) return tool.status();
    return t_.AwaitStatus([&](auto done) { door.StartProfile((*tool)->id(), {.everything = true}, std::move(done)); });
  }
};

TEST_F(TableTest, EveryCellIsAsDocumented) {
  auto bob = Door("bob"), olga = Door("olga");
  const auto bobs = *Open(*bob, "bob's program");
  const SessionId id = bobs->id();
  ASSERT_TRUE(ChangeQuota(*olga).ok());
  constexpr bool kYes = true, kNo = false;
  const std::vector<Row> rows = {
      {"compute", [&](auto& door) { return Compute(door); }, kYes, kYes, kNo, kYes},
      {"see hosts", [&](auto& door) { return InStatus(door, "\"w0\""); }, kYes, kYes, kYes, kYes},
      {"see another's session", [&](auto& door) { return InStatus(door, "bob's program"); }, kNo, kYes, kNo, kYes},
      {"change another's share", [&](auto& door) { return Share(door, id); }, kNo, kYes, kNo, kYes},
      {"suspend another's session", [&](auto& door) { return Suspend(door, id, false); }, kNo, kYes, kNo, kYes},
      {"resume another's session", [&](auto& door) { return Suspend(door, id, true); }, kNo, kYes, kNo, kYes},
      {"drain", [&](auto& door) { return Drain(door, false); }, kNo, kYes, kNo, kYes},
      {"undo it", [&](auto& door) { return Drain(door, true); }, kNo, kYes, kNo, kYes},
      {"record a trace", [&](auto& door) { return Trace(door); }, kNo, kYes, kNo, kYes},
      {"record a profile of all", [&](auto& door) { return ProfileAll(door); }, kNo, kYes, kNo, kYes},
      {"make tokens", [&](auto& door) { return MakeToken(door); }, kNo, kYes, kNo, kYes},
      {"list tokens", [&](auto& door) { return Ask(door, Listing()); }, kNo, kYes, kNo, kYes},
      {"revoke tokens", [&](auto& door) { return RevokeToken(door); }, kNo, kYes, kNo, kYes},
      {"see its own quotas", [&](auto& door) { return InQuotas(door, "quotas"); }, kYes, kYes, kNo, kYes},
      {"see another's quotas", [&](auto& door) { return InQuotas(door, "\"bob\""); }, kNo, kYes, kNo, kYes},
      {"change quotas", [&](auto& door) { return ChangeQuota(door); }, kNo, kYes, kNo, kYes},
  };
  for (const std::string user : {"ada", "olga", "rack1", ""}) {
    t_.network.SetProofOfAccepted(user.empty() ? net::PeerProof::kOwn : net::PeerProof::kStranger);
    for (const Row& row : rows) {
      auto door = Door(user);
      const bool may = user == "ada" ? row.user : user == "olga" ? row.operators : user == "rack1" ? row.worker : row.own;
      const absl::Status status = row.ask(*door);
      EXPECT_TRUE(may ? status.ok() : absl::IsPermissionDenied(status)) << "'" << user << "' may " << row.may << ": " << status;
    }
  }
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
