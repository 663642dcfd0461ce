// Hosts whose connections break: they keep what they have, commands to them wait, and a worker that is not kept is told so.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
using ::testing::Not;

ClusterOptions WithGrace(absl::Duration grace) {
  ClusterOptions options;
  options.host_grace = grace;
  options.make_key = [n = 0]() mutable { return absl::StrCat("key ", ++n); };
  return options;
}

// Two hosts; array 1 is on w1. A worker's process lives exactly while something listens at its address for other workers.
class AwayTest : public ::testing::Test {
 protected:
  explicit AwayTest(ClusterOptions options = WithGrace(absl::Seconds(30))) : t_(2, 1, std::move(options)) {
    Live(1);
    t_.Open();
    EXPECT_TRUE(t_.Put(1, t_.Single(1, {2}), "ab").ok());
    EXPECT_TRUE(t_.Ready({1}).ok());
  }
  FakeWorker& w1() { return *t_.workers[1]; }
  void Live(int host) {
    process_ = *t_.transport.Listen(absl::StrCat("tcp:w", host, ":1"), [](std::unique_ptr<net::Connection>) {});
  }
  void Die() { process_ = nullptr; }
  void Break() {
    w1().Break();
    t_.Run();
  }
  void ComeBack() {
    w1().ComeBack(&t_.transport, t_.address);
    t_.Run();
  }
  std::string Status() {
    std::string json;
    t_.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
    t_.Run();
    t_.timers.Advance(absl::Seconds(1));  // a host that is away does not answer
    return json;
  }
  std::string Loss() { return std::string(t_.Ready({1}).message()); }

  TestCluster t_;
  std::unique_ptr<net::Listener> process_;
};

TEST_F(AwayTest, AHostThatComesBackHasLostNothingAndMissedNothing) {
  Break();
  EXPECT_THAT(Status(), HasSubstr("\"state\":\"away\""));
  ASSERT_TRUE(t_.Put(2, t_.Single(1, {2}), "cd").ok());
  EXPECT_EQ(t_.Ready({2}).message(), "still waiting");
  t_.timers.Advance(absl::Seconds(20));
  ComeBack();
  EXPECT_EQ(w1().resumed, 1);
  EXPECT_EQ(*t_.Fetch(1), "ab");
  EXPECT_EQ(*t_.Fetch(2), "cd");
  EXPECT_EQ(w1().Count(Command::kPut), 2) << "each once";
  const std::string status = Status();
  EXPECT_THAT(status, Not(HasSubstr("\"state\":\"away\"")));
  EXPECT_THAT(status, HasSubstr("\"kind\":\"host away\""));
  EXPECT_THAT(status, HasSubstr("\"kind\":\"host back\""));
  t_.timers.Advance(absl::Minutes(5));
  EXPECT_TRUE(t_.Ready({1, 2}).ok());
}

TEST_F(AwayTest, AProcessThatHasEndedIsLostAtOnce) {
  Die();
  Break();
  EXPECT_THAT(Loss(), HasSubstr("'w1' of island 'i1' is gone since"));
  EXPECT_THAT(Loss(), HasSubstr("its process has ended"));
}

TEST_F(AwayTest, AProcessThatEndsWhileItIsAwayIsLostThen) {
  Break();
  t_.timers.Advance(absl::Seconds(3));
  EXPECT_TRUE(t_.Ready({1}).ok());
  Die();
  t_.timers.Advance(absl::Seconds(1));
  EXPECT_THAT(Loss(), HasSubstr("its process has ended"));
}

TEST_F(AwayTest, AHostThatStaysAwayIsGivenUpAndToldSoWhenItComes) {
  Break();
  t_.timers.Advance(absl::Seconds(29));
  EXPECT_TRUE(t_.Ready({1}).ok());
  t_.timers.Advance(absl::Seconds(3));
  EXPECT_THAT(Loss(), HasSubstr("'w1' of island 'i1' is gone since"));
  EXPECT_THAT(Loss(), HasSubstr("did not come back within"));
  ComeBack();
  EXPECT_TRUE(w1().closed);
  EXPECT_THAT(w1().given_up, HasSubstr("'w1' of island 'i1' is gone since"));
}

TEST_F(AwayTest, WhoDoesNotShowTheKeyIsToldNothing) {
  Break();
  w1().welcome.set_key("key 1");  // of another host
  ComeBack();
  EXPECT_TRUE(w1().closed);
  EXPECT_THAT(w1().given_up, HasSubstr("keeps no host"));
  w1().welcome.set_host(17);
  ComeBack();
  EXPECT_THAT(w1().given_up, HasSubstr("keeps no host 17"));
  EXPECT_TRUE(t_.Ready({1}).ok()) << "the host is waited for";
}

TEST_F(AwayTest, ALaterConnectionReplacesAnEarlierOne) {
  FakeWorker stranger({"w1", "i1", 1}, &t_.hub);  // has w1's key, as if w1 had connected twice
  ComeBack();                                     // while the controller takes the first connection for alive
  EXPECT_EQ(w1().resumed, 1);
  EXPECT_EQ(*t_.Fetch(1), "ab");
  EXPECT_THAT(Status(), Not(HasSubstr("\"state\":\"away\"")));
}

TEST_F(AwayTest, ASilentHostIsNamedAtTheHeartbeatLimitAndGivenUpAfterTheGrace) {
  w1().silent = true;
  t_.timers.Advance(absl::Seconds(12));
  EXPECT_THAT(Status(), HasSubstr("nothing heard from it for 10s"));
  EXPECT_TRUE(t_.Ready({1}).ok());
  t_.timers.Advance(absl::Seconds(20));
  EXPECT_THAT(Loss(), HasSubstr("nothing heard from it for 10s"));
}

TEST_F(AwayTest, AnotherProcessAtItsAddressSaysThatItHasEnded) {
  Break();
  FakeWorker& successor = t_.Add({"w1", "i1", 1});
  EXPECT_EQ(successor.Count(Command::kWelcome), 1);
  EXPECT_THAT(Loss(), HasSubstr("another one listens at tcp:w1:1"));
  ASSERT_TRUE(t_.Put(2, t_.Single(1, {2}), "cd").ok());
  EXPECT_EQ(*t_.Fetch(2), "cd") << "it has taken the seat";
}

TEST_F(AwayTest, AControllerThatSleptWaitsForThoseThatWereAway) {
  Break();
  t_.timers.Advance(absl::Seconds(5));
  t_.clock.now += absl::Minutes(5);
  t_.timers.Advance(absl::Seconds(2));
  ComeBack();
  EXPECT_EQ(*t_.Fetch(1), "ab");
}

TEST_F(AwayTest, AControllerThatSleptIsComeBackTo) {
  t_.clock.now += absl::Minutes(5);
  Break();  // the worker has given up the connection on which it heard nothing
  ComeBack();
  t_.timers.Advance(absl::Seconds(2));
  EXPECT_EQ(*t_.Fetch(1), "ab");
}

TEST_F(AwayTest, WhoClaimsToHaveReceivedWhatWasNotSentIsGivenUp) {
  ::pathways::v1::FromWorker message;
  message.set_beside(true);
  message.mutable_received()->set_urgent(1'000'000);
  w1().Send(message);
  t_.Run();
  EXPECT_THAT(Loss(), HasSubstr("message 1000000 is acknowledged"));
}

class BoundedAwayTest : public AwayTest {
 protected:
  static ClusterOptions Little() {
    ClusterOptions options = WithGrace(absl::Minutes(10));
    options.host_kept_bytes = 10'000;
    return options;
  }
  BoundedAwayTest() : AwayTest(Little()) {}
};

TEST_F(BoundedAwayTest, AHostForWhichTooMuchWaitsIsGivenUp) {
  Break();
  t_.timers.Advance(absl::Seconds(5));
  EXPECT_TRUE(t_.Ready({1}).ok());
  ASSERT_TRUE(t_.Put(2, t_.Single(1, {20'000}), std::string(20'000, 'x')).ok());
  t_.Run();
  t_.timers.Advance(absl::Seconds(2));
  EXPECT_THAT(Loss(), HasSubstr("more than the limit of 10000"));
}

class WithoutGraceTest : public AwayTest {
 protected:
  WithoutGraceTest() : AwayTest(WithGrace(absl::ZeroDuration())) {}
};

TEST_F(WithoutGraceTest, AHostIsLostWithItsConnection) {
  EXPECT_EQ(w1().welcome.key(), "");
  w1().Die();
  t_.Run();
  EXPECT_THAT(Loss(), HasSubstr("'w1' of island 'i1' is gone since"));
}

}  // namespace
}  // namespace pw::controller
