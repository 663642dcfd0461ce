// A link with a controller that the test plays, on a network in memory and a manual clock.
#include "pathways/client/link.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/base/testing/manual_world.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::pathways::v1::SessionHello;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kAddress[] = "tcp:controller:1";

// Takes connections and remembers what came on them.
class Controller {
 public:
  explicit Controller(net::Transport* transport) : transport_(transport) { Listen(); }

  void Listen() {
    auto listening = transport_->Listen(kAddress, [this](std::unique_ptr<net::Connection> connection) {
      auto& peer = peers.emplace_back(std::make_unique<Peer>());
      peer->connection = std::move(connection);
      peer->connection->Start(peer.get());
    });
    ASSERT_TRUE(listening.ok()) << listening.status();
    listener = *std::move(listening);
  }
  void Welcome(absl::Duration grace = absl::Minutes(10), uint64_t received = 0) {
    ControllerFrame frame;
    frame.mutable_welcome()->set_session(7);
    frame.mutable_welcome()->set_key("a key");
    frame.mutable_welcome()->set_received(received);
    frame.mutable_welcome()->set_grace_seconds(absl::ToDoubleSeconds(grace));
    Say(frame);
  }
  // Welcomes a session that another controller can restore. `epoch`: of this one.
  void WelcomeRestorable(uint64_t epoch, uint64_t received = 0) {
    ControllerFrame frame;
    frame.mutable_welcome()->set_session(7);
    frame.mutable_welcome()->set_key(absl::StrCat("a key of ", epoch));
    frame.mutable_welcome()->set_received(received);
    frame.mutable_welcome()->set_grace_seconds(10);
    frame.mutable_welcome()->set_epoch(epoch);
    frame.mutable_welcome()->set_controller_grace_seconds(60);
    Say(frame);
  }
  // Tells that requests are carried out, and that some are settled.
  void Acknowledge(uint64_t number, uint64_t event, std::vector<uint64_t> settled) {
    ControllerFrame frame;
    frame.set_ack(number);
    frame.set_first(event);
    auto& news = *frame.add_events()->mutable_settled();
    news.mutable_ranges()->Add(settled.begin(), settled.end());
    Say(frame);
  }
  void WantRestore() {
    ControllerFrame frame;
    frame.set_restore_wanted(true);
    Say(frame);
  }
  // `number`: the last request that it has carried out.
  void SayThatItStops(uint64_t number = 5) {
    ControllerFrame frame;
    frame.set_stopping("a test");
    frame.set_ack(number);
    Say(frame);
  }
  void Refuse(const absl::Status& status) {
    ControllerFrame frame;
    session::ToProto(status, frame.mutable_ended());
    Say(frame);
    Close();
  }
  void Say(const ControllerFrame& frame) { peers.back()->connection->Send(frame.SerializeAsString()); }
  void Close() { peers.back()->connection->Close(absl::UnavailableError("the network is cut")); }
  const SessionHello& hello() const { return peers.back()->heard.front().hello(); }

  struct Peer : net::Connection::Handler {
    void OnFrame(net::Frame frame) override { ASSERT_TRUE(heard.emplace_back().ParseFromString(frame.header)); }
    void OnClosed(const absl::Status&) override {}

    std::vector<ClientFrame> heard;
    std::unique_ptr<net::Connection> connection;
  };
  std::vector<std::unique_ptr<Peer>> peers;  // one for each connection
  std::unique_ptr<net::Listener> listener;

 private:
  net::Transport* const transport_;
};

class LinkTest : public ::testing::Test, private Link::Owner {
 protected:
  LinkTest() {
    Link::Options options;
    options.controller = kAddress;
    options.say = [this](const std::string& line) { said.push_back(line); };
    link = Link::Create(std::move(options), {&transport, &strand, &timers, &clock}, this);
    link->Open();
    executor.RunUntilIdle();
  }
  ~LinkTest() override {
    link->Close();
    link = nullptr;
    executor.RunUntilIdle();
  }
  void Open(absl::Duration grace = absl::Minutes(10)) {
    controller.Welcome(grace);
    executor.RunUntilIdle();
    ASSERT_TRUE(welcomed);
  }
  void Cut() {
    controller.Close();
    executor.RunUntilIdle();
  }

  void OnWelcome(const ::pathways::v1::SessionWelcome&) override { welcomed = true; }
  void OnEvent(::pathways::v1::SessionEvent event, Bytes) override {
    const auto& ranges = event.settled().ranges();
    link->kept().Settle({ranges.data(), static_cast<size_t>(ranges.size())});
  }
  std::vector<RestorePart> OnRestoreWanted() override {
    return RestorePartsOf({}, {}, {}, link->kept(), link->stream(), link->last_begun(), [](uint64_t) { return true; });
  }
  void OnRestored() override { ++restored; }
  std::string Obstacle() override { return obstacle; }
  void OpenRestorable() {
    controller.WelcomeRestorable(5);
    executor.RunUntilIdle();
    ASSERT_TRUE(welcomed);
    ::pathways::v1::SessionRequest request;
    request.set_await_effects(true);
    for (int i = 0; i < 6; ++i) link->Send(request);
    executor.RunUntilIdle();
    controller.Acknowledge(5, 1, {2, 3});  // it has not carried out the last one yet
    executor.RunUntilIdle();
  }
  void OnEnded(const absl::Status& status) override { ended = status; }

  ManualExecutor executor;
  ManualClock clock;
  ManualTimers timers{&clock, &executor};
  net::MemoryNetwork network;
  net::MemoryTransport transport{&network, &executor, &timers};
  Strand strand{&executor};
  Controller controller{&transport};
  std::shared_ptr<Link> link;
  bool welcomed = false;
  int restored = 0;
  std::string obstacle;
  std::optional<absl::Status> ended;
  std::vector<std::string> said;
};

TEST_F(LinkTest, AConnectionThatBreaksIsMadeAgainAndTellsWhatTheOtherEndHasNotHad) {
  Open();
  ::pathways::v1::SessionRequest request;
  request.set_status(true);
  EXPECT_EQ(link->Send(request), 1);
  executor.RunUntilIdle();
  EXPECT_EQ(link->Send(request), 2);  // on its way when the network is cut
  Cut();
  ASSERT_THAT(controller.peers, SizeIs(2));
  EXPECT_EQ(controller.hello().session(), 7);
  EXPECT_EQ(controller.hello().key(), "a key");
  EXPECT_TRUE(link->away());
  EXPECT_EQ(link->Send(request), 3);  // waits
  controller.Welcome(absl::Minutes(10), 1);
  executor.RunUntilIdle();
  EXPECT_FALSE(link->away());
  ASSERT_THAT(controller.peers.back()->heard, SizeIs(2));
  EXPECT_EQ(controller.peers.back()->heard.back().first(), 2);
  EXPECT_THAT(controller.peers.back()->heard.back().requests(), SizeIs(2));
}

TEST_F(LinkTest, TheUserHearsOfAConnectionThatIsLostForSecondsOnceForEachLoss) {
  Open();
  Cut();
  controller.Welcome();
  timers.Advance(absl::Seconds(9));
  EXPECT_THAT(said, IsEmpty()) << "it was back at once";
  Cut();
  timers.Advance(absl::Seconds(2));
  EXPECT_THAT(said, IsEmpty());
  timers.Advance(absl::Seconds(9));
  EXPECT_THAT(said, ElementsAre(HasSubstr("is lost")));
  EXPECT_THAT(said[0], HasSubstr("for 10m"));
}

TEST_F(LinkTest, AHelloThatNobodyAnswersIsSaidAgain) {
  Open();
  Cut();
  ASSERT_THAT(controller.peers, SizeIs(2));
  timers.Advance(Link::kAnswerTime + absl::Seconds(1));
  ASSERT_THAT(controller.peers, SizeIs(3));
  EXPECT_EQ(controller.hello().session(), 7);
  controller.Welcome();
  timers.Advance(absl::Minutes(1));
  EXPECT_THAT(controller.peers, SizeIs(3));
  EXPECT_FALSE(ended.has_value());
}

TEST_F(LinkTest, AControllerWhoseHostsAreStillJoiningIsAskedAgainAndTheUserHearsOfIt) {
  const absl::Status forming = absl::UnavailableError("the cluster has not formed yet: 0 of 1 hosts have joined");
  const absl::Time began = clock.Now();
  for (size_t asked = 1; said.empty(); ++asked) {
    ASSERT_THAT(controller.peers, SizeIs(asked));
    ASSERT_LE(clock.Now(), began + Link::kQuietTime);
    controller.Refuse(forming);
    executor.RunUntilIdle();
    timers.Advance(absl::Milliseconds(500));
    executor.RunUntilIdle();
  }
  EXPECT_THAT(said, ElementsAre(HasSubstr("waiting for the Pathways cluster at tcp:controller:1, for at most 30s: the cluster has not formed yet")));
  EXPECT_FALSE(ended.has_value());
  controller.Refuse(forming);
  executor.RunUntilIdle();
  timers.Advance(absl::Milliseconds(500));
  executor.RunUntilIdle();
  EXPECT_THAT(said, SizeIs(1));
  Open();
}

TEST_F(LinkTest, AControllerThatIsNotReadyInTimeIsQuotedAsItIs) {
  timers.Advance(absl::Seconds(30));
  controller.Refuse(absl::UnavailableError("the cluster has not formed yet"));
  executor.RunUntilIdle();
  EXPECT_EQ(ended, absl::UnavailableError("the cluster has not formed yet"));
}

TEST_F(LinkTest, ARefusalForLackOfRoomConcernsThatConnection) {
  Open();
  Cut();
  controller.Refuse(absl::ResourceExhaustedError("too many others wait to be let in"));
  timers.Advance(absl::Seconds(1));
  EXPECT_THAT(controller.peers, SizeIs(3));
  controller.Refuse(absl::DeadlineExceededError("no hello came within 5s"));
  timers.Advance(absl::Seconds(1));
  EXPECT_THAT(controller.peers, SizeIs(4));
  EXPECT_FALSE(ended.has_value());
  controller.Refuse(absl::NotFoundError("session 7 was kept for 10m"));
  timers.Advance(absl::Seconds(1));
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->message(), HasSubstr("ended this session: session 7 was kept for 10m"));
}

TEST_F(LinkTest, AControllerHasEndedIfItsMachineSaysForSecondsThatNobodyListens) {
  Open();
  controller.listener = nullptr;
  Cut();
  timers.Advance(Link::kRefusedFor - absl::Seconds(2));
  EXPECT_FALSE(ended.has_value());
  controller.Listen();  // a process on the way was gone, and is back
  timers.Advance(absl::Seconds(1));
  ASSERT_THAT(controller.peers, SizeIs(2));
  controller.Welcome();
  executor.RunUntilIdle();
  EXPECT_FALSE(link->away());
  controller.listener = nullptr;
  Cut();
  timers.Advance(Link::kRefusedFor + absl::Seconds(1));
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->message(), HasSubstr("no process listens there any more"));
}

TEST_F(LinkTest, ASessionThatTheControllerDoesNotKeepEndsWithItsConnection) {
  Open(absl::ZeroDuration());
  Cut();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ended->message(), HasSubstr("was lost"));
}

TEST_F(LinkTest, AnotherControllerGetsTheRequestsThatAreNotSettled) {
  OpenRestorable();
  Cut();
  EXPECT_EQ(controller.hello().epoch(), 5u);
  controller.Refuse(absl::ResourceExhaustedError("the hosts are not back yet"));
  executor.RunUntilIdle();
  timers.Advance(absl::Seconds(1));
  executor.RunUntilIdle();
  ASSERT_THAT(controller.peers, SizeIs(3));
  EXPECT_EQ(controller.hello().key(), "a key of 5");
  controller.WantRestore();
  executor.RunUntilIdle();
  ::pathways::v1::SessionRequest request;
  request.set_await_effects(true);
  EXPECT_EQ(link->Send(request), 7u);  // while the session is restored
  ASSERT_THAT(controller.peers.back()->heard, SizeIs(2));
  const ClientFrame& told = controller.peers.back()->heard.back();
  EXPECT_THAT(told.restore().numbers(), ElementsAre(1, 4, 5, 6));
  EXPECT_THAT(told.requests(), SizeIs(4));
  EXPECT_EQ(told.restore().last_request(), 7u) << "and one more";
  controller.WelcomeRestorable(6, 6);
  executor.RunUntilIdle();
  EXPECT_EQ(restored, 1);
  ASSERT_THAT(controller.peers.back()->heard, SizeIs(3));
  EXPECT_EQ(controller.peers.back()->heard.back().first(), 7u);
  EXPECT_THAT(controller.peers.back()->heard.back().requests(), SizeIs(1));
  controller.Acknowledge(7, 1, {1, 1, 4, 6});  // its events begin anew
  executor.RunUntilIdle();
  EXPECT_FALSE(ended.has_value());
  EXPECT_EQ(link->kept().settled_up_to(), 6u);
  Cut();
  EXPECT_EQ(controller.hello().epoch(), 6u);
  EXPECT_EQ(controller.hello().key(), "a key of 6");
  EXPECT_EQ(controller.hello().received(), 1u);
}

TEST_F(LinkTest, ASessionThatCanBeRestoredWaitsForAnotherController) {
  OpenRestorable();
  controller.listener = nullptr;
  Cut();
  timers.Advance(absl::Seconds(55));
  EXPECT_FALSE(ended.has_value());
  timers.Advance(absl::Seconds(10));
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ended->message(), HasSubstr("it has ended, and no other has come within 1m"));
}

TEST_F(LinkTest, TheUserHearsAtOnceOfAControllerThatStopsAndItsEventsAreAcknowledgedAtOnce) {
  OpenRestorable();
  const size_t heard = controller.peers.back()->heard.size();
  controller.SayThatItStops();
  executor.RunUntilIdle();
  EXPECT_THAT(said, ElementsAre(HasSubstr("stops (a test). Calls wait until another one is there; hosts keep this program's arrays for 1m")));
  ASSERT_THAT(controller.peers.back()->heard, SizeIs(heard + 1));
  EXPECT_EQ(controller.peers.back()->heard.back().ack(), 1u);
  controller.Acknowledge(5, 2, {4, 5});
  executor.RunUntilIdle();
  ASSERT_THAT(controller.peers.back()->heard, SizeIs(heard + 2));
  EXPECT_EQ(controller.peers.back()->heard.back().ack(), 2u);
  Cut();
  timers.Advance(absl::Seconds(9));
  EXPECT_THAT(said, SizeIs(1)) << "once";
  EXPECT_FALSE(ended.has_value());
  EXPECT_EQ(controller.hello().epoch(), 5u);
  controller.WelcomeRestorable(6, 5);
  executor.RunUntilIdle();
  const size_t after = controller.peers.back()->heard.size();
  controller.Acknowledge(6, 1, {1, 1});
  executor.RunUntilIdle();
  EXPECT_THAT(controller.peers.back()->heard, SizeIs(after)) << "as ever, with the next one";
}

TEST_F(LinkTest, RequestsThatAControllerThatStopsHasNotTakenAreNewToTheNextOne) {
  OpenRestorable();  // 6 requests, of which 5 are carried out, and 2 and 3 are settled
  controller.SayThatItStops();
  executor.RunUntilIdle();
  const size_t heard = controller.peers.back()->heard.size();
  ::pathways::v1::SessionRequest request;
  request.set_await_effects(true);
  EXPECT_EQ(link->Send(request), 7u);
  executor.RunUntilIdle();
  EXPECT_THAT(controller.peers.back()->heard, SizeIs(heard)) << "it is not sent to a controller that does not take it";
  Cut();
  controller.WantRestore();
  executor.RunUntilIdle();
  const ClientFrame& told = controller.peers.back()->heard.back();
  EXPECT_THAT(told.restore().numbers(), ElementsAre(1, 4, 5));
  EXPECT_EQ(told.restore().last_request(), 6u) << "and one more";
  controller.WelcomeRestorable(6, 5);
  executor.RunUntilIdle();
  EXPECT_EQ(controller.peers.back()->heard.back().first(), 6u);
  EXPECT_THAT(controller.peers.back()->heard.back().requests(), SizeIs(2));
}

TEST_F(LinkTest, ASessionThatCannotBeRestoredEndsAtOnceWithAControllerThatStops) {
  OpenRestorable();
  link->SetNotRestorable("it has virtual slices");
  controller.SayThatItStops();
  executor.RunUntilIdle();
  EXPECT_FALSE(ended.has_value()) << "it may still get answers";
  EXPECT_THAT(said, IsEmpty());
  Cut();
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->message(), HasSubstr("the controller stops: a test; another controller could not go on with this program, because it has virtual slices"));
}

TEST_F(LinkTest, ASessionThatCannotBeRestoredEndsWithItsControllerAndSaysWhy) {
  OpenRestorable();
  link->SetNotRestorable("it has virtual slices");
  EXPECT_EQ(link->kept().size(), 0u);
  controller.listener = nullptr;
  Cut();
  timers.Advance(Link::kRefusedFor + absl::Seconds(1));
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->message(), HasSubstr("another controller could not go on with this program, because it has virtual slices"));
}

TEST_F(LinkTest, ASessionWithAnObstacleEndsWhenAnotherControllerWantsToRestoreIt) {
  OpenRestorable();
  Cut();
  obstacle = "too much was under way";
  controller.WantRestore();
  executor.RunUntilIdle();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ended->message(), HasSubstr("cannot go on with this program, because too much was under way"));
}

TEST_F(LinkTest, AfterTheGraceTimeItGivesUp) {
  Open(absl::Seconds(60));
  const absl::Time lost = clock.Now();
  while (!ended.has_value() &&
         clock.Now() < lost + absl::Minutes(5)) {  // each connection ends, as by a tunnel whose other end is gone
    Cut();
    timers.Advance(absl::Seconds(6));
  }
  ASSERT_TRUE(ended.has_value());
  EXPECT_GT(clock.Now() - lost, absl::Seconds(60)) << "the controller has had time to say so itself";
  EXPECT_THAT(ended->message(), HasSubstr("could not be made again within 1m10s"));
  EXPECT_THAT(said, SizeIs(1));
}

}  // namespace
}  // namespace pw::client
