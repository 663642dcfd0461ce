// A controller that stops leaves its sessions to the next one: it ends what is under way, its clients keep the rest, and hosts keep the arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/served_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A controller whose sessions another one could restore.
class LeaveTest : public ::testing::Test {
 protected:
  static SessionService::Options Restorable() {
    SessionService::Options options;
    options.epoch = 5;
    options.controller_grace = absl::Minutes(1);
    options.session_key = [](uint64_t, uint64_t session, const std::string&) { return absl::StrCat("key of ", session); };
    return options;
  }
  void SetUp() override {
    t_.said = [this](const std::string& line) { said_.push_back(line); };
    ASSERT_TRUE(t_.service->restores());
    ASSERT_TRUE(t_.Connect().ok());
  }
  void Pause() {
    t_.cluster->Post([this] { t_.service->Pause("a test", [this] { quiet_ = true; }); });
    t_.Run();
  }
  void Advance(absl::Duration duration) {
    t_.timers.Advance(duration);
    t_.Run();
  }
  // As bin/controller_main.cc does.
  void Leave() {
    t_.cluster->Post([this] { t_.service->Leave("a test"); });
    t_.cluster->Stop("a test", false, [this] { t_.service->Stop(absl::UnavailableError("a test")); });
    t_.Run();
  }

  // Returns the error with which the session has ended; CANCELLED: it has not.
  absl::Status End(Session& session) {
    return t_.AwaitStatus([&](auto done) { session.WhenReady({1}, std::move(done)); });
  }

  ServedCluster t_{1, 4, absl::Minutes(10), {}, Restorable()};
  std::vector<std::string> said_;
  bool quiet_ = false;
};

TEST_F(LeaveTest, ItIsQuietWhenTheClientKnowsThatItsRequestsAreSettled) {
  ASSERT_TRUE(t_.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  ASSERT_EQ(*t_.Fetch(1), "abcd");
  const net::ResumableStream& sent = t_.remote->link().stream();
  EXPECT_LT(t_.remote->link().kept().settled_up_to(), sent.last_appended());
  Pause();
  Advance(absl::Milliseconds(50));
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(t_.remote->link().kept().settled_up_to(), sent.last_appended());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("stops (a test). Calls wait until another one is there; hosts keep this program's arrays for 1m")));
}

TEST_F(LeaveTest, HostsKeepTheArraysAndClientsTheirSessions) {
  ASSERT_TRUE(t_.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  ASSERT_EQ(t_.Shards(), 1u);
  Pause();
  Leave();
  EXPECT_EQ(t_.Shards(), 1u) << "the host was told of no end";
  EXPECT_EQ(t_.service->num_sessions(), 0u);
  EXPECT_TRUE(absl::IsCancelled(End(*t_.session)));
  Advance(absl::Seconds(55));
  EXPECT_TRUE(absl::IsCancelled(End(*t_.session)));
  Advance(absl::Seconds(10));
  EXPECT_THAT(End(*t_.session).message(), HasSubstr("it has ended, and no other has come within 1m"));
}

TEST_F(LeaveTest, RequestsThatComeLaterAreLeftToTheNextController) {
  Pause();
  ASSERT_TRUE(t_.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(t_.Shards(), 0u);
  const net::ResumableStream& sent = t_.remote->link().stream();
  EXPECT_LT(sent.acknowledged(), sent.last_appended());
}

TEST_F(LeaveTest, ItDoesNotWaitForWhatDoesNotEnd) {
  HostShard source{77, {buffers::DType::kU8, {4}, std::nullopt}, {0}};
  ASSERT_TRUE(t_.session->MakeArray(1, TestCluster::Single(0, {4}), {source}).ok());  // its bytes come too late
  t_.Run();
  Pause();
  ASSERT_TRUE(t_.session->StoreHostBuffer(77, Bytes::Copy("abcd")).ok());
  Advance(SessionService::kPauseInVain - absl::Milliseconds(20));
  EXPECT_FALSE(quiet_);
  Advance(absl::Milliseconds(40));
  EXPECT_TRUE(quiet_);
}

TEST_F(LeaveTest, NewProgramsWaitForTheNextController) {
  Pause();
  EXPECT_TRUE(absl::IsCancelled(t_.Connect(absl::Seconds(1)))) << "it waits";
  Advance(absl::Seconds(2));
  EXPECT_EQ(t_.service->num_sessions(), 0u) << "the first program has ended";
}

TEST_F(LeaveTest, OperatorsReadThatItStops) {
  std::vector<std::string> ended;
  client::Link::Options options;
  options.controller = t_.service_address;
  options.hello.set_observer(true);
  const auto looks = client::RemoteSession::Open(std::move(options), {&t_.cut, &t_.client_strand, &t_.timers, &t_.clock}, [](const absl::Status&) {});
  t_.Run();
  ASSERT_EQ(t_.service->num_sessions(), 2u);
  Pause();
  Leave();
  EXPECT_THAT(End(*looks).message(), HasSubstr("the controller stops: a test"));
}

}  // namespace
}  // namespace pw::session
