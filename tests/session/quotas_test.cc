// Quotas of users through the session protocol: a client, the session service and a controller with users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/users_test_base.h"

namespace pw::session {
namespace {

using ::pathways::v1::QuotaQuestion;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QuotasTest : public UsersTest {
 protected:
  using Opened = absl::StatusOr<std::shared_ptr<Session>>;
  // Asks for a session; the result is there once it is open or refused.
  std::shared_ptr<std::optional<Opened>> Ask(client::RemoteCluster& door, NewSession wanted) {
    auto opened = std::make_shared<std::optional<Opened>>();
    t_.client_strand.Post([&door, wanted = std::move(wanted), opened]() mutable {
      door.OpenSession(std::move(wanted), [opened](Opened session) { *opened = std::move(session); });
    });
    t_.Run();
    return opened;
  }
  absl::StatusOr<std::string> Quotas(client::RemoteCluster& door, const QuotaQuestion& question) {
    return t_.Await<std::string>([&](auto done) { door.AskQuotas(question, std::move(done)); });
  }
  static QuotaQuestion Sessions(const std::string& user, int64_t sessions) {
    QuotaQuestion question;
    question.mutable_change()->set_user(user);
    question.mutable_change()->set_sessions(sessions);
    return question;
  }
  static QuotaQuestion Listing() {
    QuotaQuestion question;
    question.set_list(true);
    return question;
  }
};

TEST_F(QuotasTest, AClientWaitsUntilASessionOfItsUserEnds) {
  auto olga = Door("olga"), ada = Door("ada"), bob = Door("bob");
  ASSERT_TRUE(Quotas(*olga, Sessions("*", 1)).ok());
  auto first = Ask(*ada, {"first"}), second = Ask(*ada, {"second"}), third = Ask(*ada, {"third"}), bobs = Ask(*bob, {"bob's"});
  ASSERT_TRUE(first->has_value() && (*first)->ok());
  EXPECT_TRUE(bobs->has_value() && (*bobs)->ok()) << "others do not wait for ada";
  EXPECT_FALSE(second->has_value() || third->has_value());
  EXPECT_THAT(said_, ElementsAre(AllOf(HasSubstr("user 'ada' has 1 sessions, and the quota is 1"), HasSubstr("position 1")),
                                 HasSubstr("position 2")));
  first->reset();
  t_.Run();
  ASSERT_TRUE(second->has_value());
  EXPECT_TRUE((*second)->ok()) << (*second)->status();
  EXPECT_FALSE(third->has_value());
  EXPECT_THAT(said_.back(), HasSubstr("position 1"));
  ASSERT_TRUE(Quotas(*olga, Sessions("*", 2)).ok());
  t_.Run();
  EXPECT_TRUE(third->has_value() && (*third)->ok()) << "a larger quota is in force at once";
}

TEST_F(QuotasTest, ARevokedTokenLeavesTheQueue) {
  auto olga = Door("olga"), ada = Door("ada");
  ASSERT_TRUE(Quotas(*olga, Sessions("ada", 0)).ok());
  auto waiting = Ask(*ada, {"ada's"});
  EXPECT_FALSE(waiting->has_value());
  const std::string status = *t_.Await<std::string>([&](auto done) { olga->GetStatus(std::move(done)); });
  EXPECT_THAT(status, HasSubstr("\"waiting_clients\":[{\"description\":\"ada's"));
  ASSERT_EQ(identity_->RevokeToken(identity::TokenId(tokens_["ada"])), absl::OkStatus());
  t_.Run();
  ASSERT_TRUE(waiting->has_value());
  EXPECT_TRUE(absl::IsUnauthenticated((*waiting)->status())) << (*waiting)->status();
}

TEST_F(QuotasTest, OperatorsHaveNoQuota) {
  auto olga = Door("olga");
  ASSERT_TRUE(Quotas(*olga, Sessions("*", 0)).ok());
  auto session = Ask(*olga, {"olga's", {.weight = 9, .priority = {}}});
  ASSERT_TRUE(session->has_value());
  EXPECT_TRUE((*session)->ok()) << (*session)->status();
}

TEST_F(QuotasTest, UsersSeeTheirOwnAndOperatorsSetAll) {
  auto olga = Door("olga"), ada = Door("ada");
  ASSERT_TRUE(Quotas(*olga, Sessions("*", 3)).ok());
  ASSERT_TRUE(Quotas(*olga, Sessions("bob", 1)).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Quotas(*ada, Sessions("ada", 9)).status()));
  EXPECT_EQ(*Quotas(*ada, Listing()), R"({"quotas":[{"user":"ada","sessions":3}],"users":[]})");
  EXPECT_EQ(*Quotas(*olga, Listing()), R"({"quotas":[{"user":"*","sessions":3},{"user":"bob","sessions":1}],"users":[]})");
  EXPECT_TRUE(absl::IsInvalidArgument(Quotas(*olga, Sessions("ada", -1)).status()));
  EXPECT_TRUE(absl::IsUnimplemented(Quotas(*olga, {}).status()));
}

TEST_F(QuotasTest, SharesStayWithinTheQuotaUnlessAnOperatorChangesThem) {
  auto olga = Door("olga"), ada = Door("ada");
  QuotaQuestion question;
  question.mutable_change()->set_user("ada");
  question.mutable_change()->set_weight(2);
  ASSERT_TRUE(Quotas(*olga, question).ok());
  EXPECT_TRUE((*Ask(*ada, {"greedy", {.weight = 3, .priority = {}}}))->ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("more than user 'ada' may have: at most 2 and 0")));
  const auto session = Ask(*ada, {"modest", {.weight = 2, .priority = {}}});
  ASSERT_TRUE((*session)->ok());
  const auto change = [&](client::RemoteCluster& door, double weight) {
    return t_
        .Await<gang::Share>(
            [&](auto done) { door.ChangeShare((***session)->id(), {.weight = weight, .priority = {}}, std::move(done)); })
        .status();
  };
  EXPECT_TRUE(absl::IsPermissionDenied(change(*ada, 3)));
  EXPECT_EQ(change(*ada, 1), absl::OkStatus());
  EXPECT_EQ(change(*olga, 3), absl::OkStatus());
}

TEST_F(QuotasTest, HostsKnowTheLimitsOfASessionsUserWhileItIsOpen) {
  auto olga = Door("olga"), ada = Door("ada"), bob = Door("bob");
  QuotaQuestion question;
  question.mutable_change()->set_user("ada");
  question.mutable_change()->set_device_memory(1 << 20);
  ASSERT_TRUE(Quotas(*olga, question).ok());
  const ::pathways::v1::HostConfig& config = t_.workers[0]->config;
  auto bobs = Ask(*bob, {"bob's"});
  EXPECT_EQ(config.accounts_size(), 0) << "bob has no limit";
  auto first = Ask(*ada, {"first"}), second = Ask(*ada, {"second"});
  ASSERT_TRUE(first->has_value() && (*first)->ok());
  ASSERT_EQ(config.accounts_size(), 1);
  EXPECT_EQ(config.accounts(0).user(), "ada");
  EXPECT_THAT(config.accounts(0).sessions(), ElementsAre((***first)->id().v, (***second)->id().v));
  EXPECT_EQ(config.accounts(0).device_bytes(), 1 << 20);
  EXPECT_FALSE(config.accounts(0).has_python_processes());
  question.mutable_change()->set_host_processes(2);
  question.mutable_change()->set_host_memory(1 << 24);
  ASSERT_TRUE(Quotas(*olga, question).ok());
  t_.Run();
  EXPECT_EQ(config.accounts(0).host_bytes(), 1 << 24);
  EXPECT_EQ(config.accounts(0).python_processes(), 2) << "a change is in force at once";
  first->reset();
  t_.Run();
  EXPECT_THAT(config.accounts(0).sessions(), ElementsAre((***second)->id().v));
  second->reset();
  t_.Run();
  EXPECT_EQ(config.accounts_size(), 0);
}

TEST_F(QuotasTest, ASliceBeyondTheQuotaWaitsForAnother) {
  using What = SliceState::What;
  auto olga = Door("olga"), ada = Door("ada");
  QuotaQuestion question;
  question.mutable_change()->set_user("ada");
  question.mutable_change()->set_devices(2);
  ASSERT_TRUE(Quotas(*olga, question).ok());
  const auto opened = Ask(*ada, {"ada's"});
  const SessionId session = (***opened)->id();
  const auto add = [&](int count) {
    resource::SliceRequest request;
    request.count = count;
    return *t_.Await<SliceState>([&](auto done) { ada->AddSlice(session, request, std::move(done)); });
  };
  const SliceState first = add(2), second = add(1), third = add(3);
  EXPECT_EQ(first.what, What::kPlaced);
  ASSERT_EQ(second.what, What::kWaiting);
  EXPECT_EQ(second.position, 1);
  EXPECT_EQ(second.text, "1 device of the 2 that user 'ada' may have at a time, of which 2 are in use");
  EXPECT_EQ(third.what, What::kRefused);
  EXPECT_THAT(third.text, HasSubstr("this slice has 3"));
  EXPECT_THAT(*Quotas(*ada, Listing()), HasSubstr("\"devices\":2"));
  ASSERT_TRUE(t_.AwaitStatus([&](auto done) { ada->ReleaseSlice(session, first.slice, std::move(done)); }).ok());
  const auto placed =
      t_.Await<SliceState>([&](auto done) { ada->AwaitSlice(session, second.slice, absl::Seconds(1), std::move(done)); });
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->what, What::kPlaced);
}

TEST_F(QuotasTest, ADeviceMoreThanTheQuotaIsRefused) {
  auto olga = Door("olga"), ada = Door("ada");
  QuotaQuestion question;
  question.mutable_change()->set_user("ada");
  question.mutable_change()->set_devices(2);
  ASSERT_TRUE(Quotas(*olga, question).ok());
  auto opened = Ask(*ada, {"ada's"});
  t_.session = ***opened;
  EXPECT_TRUE(t_.Put(1, t_.Rows(0, 2, {4}), "abcd").ok());
  EXPECT_EQ(t_.Ready({1}), absl::OkStatus());
  t_.Put(2, t_.Rows(1, 2, {4}), "abcd").IgnoreError();
  const absl::Status refused = t_.Ready({2});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("user 'ada' has 2 devices in use and would have 3 with device 2; the quota is 2"));
  EXPECT_EQ(*t_.FetchRows(1), "abcd") << "what it has goes on";
  t_.session = nullptr;
}

class Frames : public net::Connection::Handler {
 public:
  void OnFrame(net::Frame frame) override { EXPECT_TRUE(last.ParseFromString(frame.header)); }
  void OnClosed(const absl::Status&) override {}
  ::pathways::v1::ControllerFrame last;
};

TEST_F(QuotasTest, WithoutAQuotaAUserHasSoManyConnectionsAndOthersTheirs) {
  Frames frames;
  std::vector<std::unique_ptr<net::Connection>> connections;
  const auto connect = [&](const std::string& user) {
    frames.last.Clear();
    t_.transport.Connect(t_.service_address, absl::InfiniteDuration(),
                         [&](auto connected) { connections.push_back(*std::move(connected)); });
    t_.Run();
    connections.back()->Start(&frames);
    ::pathways::v1::ClientFrame hello;
    hello.mutable_hello()->set_version(1);
    hello.mutable_hello()->set_observer(true);
    hello.mutable_hello()->set_token(tokens_[user]);
    connections.back()->Send(hello.SerializeAsString());
    t_.Run();
    return frames.last;
  };
  for (size_t i = 0; i < SessionService::kMostOfOne; ++i) ASSERT_TRUE(connect("ada").has_welcome());
  EXPECT_THAT(connect("ada").ended().message(), HasSubstr("user 'ada' has 1024 programs and tools connected"));
  EXPECT_TRUE(connect("bob").has_welcome());
  EXPECT_TRUE(connect("olga").has_welcome());
  connections.front() = nullptr;
  t_.Run();
  EXPECT_TRUE(connect("ada").has_welcome());
}

TEST_F(QuotasTest, AnObserverComputesNothing) {
  // Else users could have sessions that no quota counts, by calling them observers.
  Frames frames;
  std::unique_ptr<net::Connection> connection;
  t_.transport.Connect(t_.service_address, absl::InfiniteDuration(), [&](auto connected) { connection = *std::move(connected); });
  t_.Run();
  connection->Start(&frames);
  ::pathways::v1::ClientFrame hello, request;
  hello.mutable_hello()->set_version(1);
  hello.mutable_hello()->set_observer(true);
  hello.mutable_hello()->set_token(tokens_["ada"]);
  connection->Send(hello.SerializeAsString());
  t_.Run();
  ASSERT_TRUE(frames.last.has_welcome());
  request.set_first(1);
  request.add_requests()->mutable_make_error_array()->set_result(1);
  connection->Send(request.SerializeAsString());
  t_.Run();
  EXPECT_THAT(frames.last.ended().message(), HasSubstr("computes nothing"));
}

}  // namespace
}  // namespace pw::session
