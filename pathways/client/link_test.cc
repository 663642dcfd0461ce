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
  void OnEvent(::pathways::v1::SessionEvent, Bytes) override {}
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
