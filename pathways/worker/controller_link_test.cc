// Tests ControllerLink (joining, heartbeats, loss of the controller) against a fake controller on an in-memory transport, with manual time.
#include "pathways/worker/controller_link.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/worker/testing_link.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

TEST_F(LinkTest, SaysWhoItIsAndServes) {
  Start();
  ASSERT_EQ(controller_.events.size(), 1u);
  const v1::Hello& hello = controller_.events[0].hello();
  EXPECT_EQ(hello.protocol_version(), 1);
  EXPECT_EQ(hello.host_name(), "hosta");
  EXPECT_EQ(hello.island(), "i0");
  EXPECT_EQ(hello.data_address(), "hosta:2");
  EXPECT_EQ(hello.devices_size(), 3);
  EXPECT_EQ(hello.devices(0).memories(0).kind(), "device");
  EXPECT_EQ(hello.stablehlo_version(), "1.13.0");
  controller_.Welcome();
  v1::Command command;
  command.mutable_fetch()->set_fetch(4);
  controller_.Send(command);
  Run();
  ASSERT_EQ(controller_.events.size(), 2u);
  EXPECT_EQ(controller_.events[1].fetched().fetch(), 4u);
}

TEST_F(LinkTest, ShowsTheCertificateThatItGetsAndTheNextOne) {
  const net::Authority authority = *net::MakeAuthority("a test", absl::Now());
  tls_ = *net::Tls::Create("");
  Start();
  std::string key = controller_.events[0].hello().public_key();
  const auto certify = [&] {
    return *net::Certify(authority, key, net::Part::kWorker, "hosta", absl::Now(), absl::Now() + absl::Hours(1));
  };
  v1::Command command;
  command.mutable_welcome()->set_heartbeat_seconds(1);
  command.mutable_welcome()->set_certificate(certify());
  controller_.Send(command);
  Run();
  EXPECT_TRUE(tls_->shows_certificate());
  EXPECT_EQ(tls_->authority(), *net::AuthorityFingerprint(authority.certificate_pem)) << "it has learned whom to trust";
  command.mutable_new_key();
  controller_.Send(command);
  Run();
  EXPECT_NE(controller_.events.back().public_key().der(), key);
  const std::string old_chain = certify();
  key = controller_.events.back().public_key().der();
  ASSERT_NE(key, "");
  command.mutable_certificate()->set_chain(certify());
  controller_.Send(command);
  Run();
  EXPECT_TRUE(controller_.closed.ok()) << controller_.closed;
  command.mutable_certificate()->set_chain(old_chain);
  controller_.Send(command);
  Run();
  EXPECT_FALSE(controller_.closed.ok()) << "it is not for the new key: a host without a certificate that holds joins again";
}

TEST_F(LinkTest, WaitsForAControllerThatIsNotThereYet) {
  Start(false, false);
  Advance(absl::Seconds(1));
  EXPECT_TRUE(finished_.empty());
  Listen();
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, 1);
}

TEST_F(LinkTest, AnswersPingsAndTakesSilenceForTheEnd) {
  Start();
  controller_.Welcome(1);
  Run();
  for (uint64_t i = 1; i <= 5; ++i) {
    controller_.Ping(i);
    Run();
    Advance(absl::Seconds(1));
  }
  EXPECT_EQ(controller_.events.size(), 6u);
  EXPECT_EQ(controller_.events.back().pong().sequence(), 5u);
  EXPECT_TRUE(controller_.closed.ok());
  Advance(absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_FALSE(controller_.closed.ok());
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, 2) << "it joins again, as a new host";
}

TEST_F(LinkTest, FreesEverythingWhenTheControllerIsLost) {
  Start();
  controller_.Welcome();
  v1::Command put;
  put.mutable_put()->set_op(1);
  put.mutable_put()->set_array(5);
  put.mutable_put()->set_dtype(11);
  put.mutable_put()->set_total_bytes(4);
  put.mutable_put()->set_payload_bytes(4);
  put.mutable_put()->add_placements();
  controller_.Send(put, "abcd");
  Run();
  EXPECT_EQ(controller_.events.back().done().ok_size(), 1);
  controller_.connection->Close(absl::UnavailableError("controller is gone"));
  Run();
  Advance(absl::Seconds(1));
  ASSERT_EQ(controller_.connections, 2);
  EXPECT_TRUE(controller_.events.back().has_hello());
  controller_.Welcome();
  EXPECT_EQ(link_->arrays(), 0);
}

// A worker that has joined with a key, and holds array 5.
class BrokenLinkTest : public LinkTest {
 protected:
  void Join(bool exit_with_controller = false) {
    Start(exit_with_controller);
    controller_.Welcome(1, "the key");
    controller_.Put(5);
    Run();
    EXPECT_EQ(controller_.counted, 1u) << "of the completion";
  }
  void Break() {
    controller_.connection = nullptr;
    Run();
  }
};

TEST_F(BrokenLinkTest, ItIsMadeAgainAndGoesOn) {
  Join();
  controller_.Put(6);  // its completion is lost
  Run();
  EXPECT_EQ(link_->arrays(), 2);
  Break();
  ASSERT_EQ(controller_.connections, 2) << "at once";
  ASSERT_TRUE(controller_.events.back().has_resume());
  const v1::Resume& resume = controller_.events.back().resume();
  EXPECT_EQ(resume.host(), 3u);
  EXPECT_EQ(resume.key(), "the key");
  EXPECT_EQ(resume.received().urgent(), 3u) << "the welcome and the puts";
  controller_.events.clear();
  controller_.Resumed(1);
  controller_.Put(7);
  Run();
  EXPECT_EQ(link_->arrays(), 3);
  ASSERT_EQ(controller_.events.size(), 2u);
  EXPECT_EQ(controller_.events[0].done().ok(0), 12u) << "told again";
  EXPECT_EQ(controller_.events[1].done().ok(0), 14u);
}

TEST_F(BrokenLinkTest, APingWithAnAcknowledgementMayComeBeforeTheWelcome) {
  Start();
  v1::ToWorker ping;
  ping.set_beside(true);
  ping.add_commands()->mutable_ping()->set_sequence(1);
  ping.mutable_received();
  controller_.connection->Send(ping.SerializeAsString());
  Run();
  EXPECT_TRUE(controller_.closed.ok()) << controller_.closed;
  EXPECT_EQ(controller_.events.back().pong().sequence(), 1u);
  controller_.Welcome(1, "the key");
  controller_.Put(5);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
  EXPECT_EQ(controller_.connections, 1);
}

TEST_F(BrokenLinkTest, APongTellsWhatHasCome) {
  Join();
  controller_.Ping(1);
  Run();
  EXPECT_EQ(controller_.received.urgent(), 2u);
}

TEST_F(BrokenLinkTest, EventsWaitWhileItIsBroken) {
  Join();
  listener_ = nullptr;
  Break();
  Advance(absl::Seconds(1));
  Listen();
  Advance(absl::Seconds(1));
  ASSERT_EQ(controller_.connections, 2);
  EXPECT_EQ(link_->arrays(), 1);
  EXPECT_TRUE(controller_.events.back().has_resume());
  controller_.events.clear();
  Run();
  EXPECT_TRUE(controller_.events.empty()) << "nothing is sent before the answer";
}

TEST_F(BrokenLinkTest, AWorkerThatIsGivenUpFreesEverythingAndJoinsAnew) {
  Join();
  Break();
  v1::Command command;
  command.mutable_given_up()->set_reason("it was away for too long");
  controller_.SendBeside(command);
  Run();
  EXPECT_EQ(link_->arrays(), 0);
  Advance(absl::Seconds(1));
  ASSERT_EQ(controller_.connections, 3);
  EXPECT_TRUE(controller_.events.back().has_hello());
}

TEST_F(BrokenLinkTest, AControllerThatHasEndedIsNotWaitedFor) {
  Join();
  listener_ = nullptr;
  Break();
  for (int i = 0; i < 30; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 1);
  for (int i = 0; i < 20; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 0);
  Listen();
  Advance(absl::Seconds(1));
  ASSERT_EQ(controller_.connections, 2);
  EXPECT_TRUE(controller_.events.back().has_hello());
}

TEST_F(BrokenLinkTest, ItEndsWithAControllerThatHasEndedIfToldTo) {
  Join(true);
  listener_ = nullptr;
  Break();
  EXPECT_TRUE(finished_.empty());
  for (int i = 0; i < 50; ++i) Advance(absl::Milliseconds(100));
  EXPECT_THAT(finished_, testing::ElementsAre(absl::OkStatus()));
}

TEST_F(BrokenLinkTest, SilenceBreaksItBeforeTheControllerMissesThisHost) {
  Join();
  Advance(absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, 1);
  Advance(absl::Milliseconds(500));
  EXPECT_EQ(controller_.connections, 2) << "after three quarters of three intervals";
  EXPECT_TRUE(controller_.events.back().has_resume());
  for (int i = 0; i < 3000; ++i) Advance(absl::Milliseconds(300));  // longer steps would look like a process that was stopped
  EXPECT_EQ(link_->arrays(), 0) << "a controller that answers nothing is given up in the end";
}

TEST_F(BrokenLinkTest, AControllerThatBreaksTheProtocolIsNotComeBackTo) {
  Join();
  controller_.connection->Send("\xff\xff\xff");
  Run();
  EXPECT_EQ(link_->arrays(), 0);
  Advance(absl::Seconds(1));
  EXPECT_TRUE(controller_.events.back().has_hello());
}

TEST_F(BrokenLinkTest, AnAnswerThatCannotBeEndsTheHost) {
  Join();
  Break();
  controller_.Resumed(100);
  Run();
  EXPECT_EQ(link_->arrays(), 0);
}

TEST_F(BrokenLinkTest, ARefusalEndsTheWorkerWithTheReason) {
  Join();
  Break();
  v1::Command command;
  command.mutable_shutdown()->set_reason("its token is revoked");
  controller_.SendBeside(command);
  Run();
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_THAT(std::string(finished_[0].message()), HasSubstr("its token is revoked"));
}

TEST_F(LinkTest, TellsTheGreatestLaunchThatItHasHadFromAnyController) {
  Start();
  EXPECT_EQ(controller_.events.back().hello().last_launch(), 0u);
  controller_.Welcome();
  v1::Command command;
  for (uint64_t launch : {30u, 41u, 7u}) {
    command.mutable_execute()->set_op(launch);
    command.mutable_execute()->set_launch(launch);
    controller_.Send(command);
  }
  Run();
  controller_.connection->Close(absl::UnavailableError("gone"));
  Run();
  Advance(absl::Seconds(1));
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_EQ(controller_.events.back().hello().last_launch(), 41u);
}

TEST_F(LinkTest, ExitsWithItsControllerIfToldTo) {
  Start(true);
  controller_.Welcome();
  Run();
  controller_.connection->Close(absl::UnavailableError("gone"));
  Run();
  EXPECT_THAT(finished_, testing::ElementsAre(absl::OkStatus()));
}

TEST_F(LinkTest, RefusalIsAnErrorWithTheReason) {
  Start(true);
  controller_.connection->Close(absl::FailedPreconditionError("protocol version 1 is too old"));
  Run();
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_FALSE(finished_[0].ok());
}

TEST_F(LinkTest, ShutdownEndsIt) {
  Start();
  controller_.Welcome();
  v1::Command command;
  command.mutable_shutdown()->set_reason("maintenance");
  controller_.Send(command);
  Run();
  EXPECT_THAT(finished_, testing::ElementsAre(absl::OkStatus()));
  Advance(absl::Seconds(5));
  EXPECT_EQ(controller_.connections, 1);
}

TEST_F(LinkTest, AControllerThatDoesNotTakeItEndsItWithTheReason) {
  Start();
  v1::Command command;
  command.mutable_shutdown()->set_reason("this cluster wants a token");
  controller_.Send(command);
  Run();
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_EQ(finished_[0].code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(finished_[0].message()), testing::HasSubstr("this cluster wants a token"));
  Advance(absl::Seconds(5));
  EXPECT_EQ(controller_.connections, 1);
}

TEST_F(LinkTest, MalformedFramesEndTheConnectionNotTheProcess) {
  Start();
  controller_.Welcome();
  Run();
  controller_.connection->Send("\xff\xff\xff");
  Run();
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, 2);
  v1::Command put;
  put.mutable_put()->set_payload_bytes(1000);
  controller_.Send(put, "short");  // without a preceding Welcome
  Run();
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, 3);
}

TEST_F(LinkTest, AStrangeControllersPeersAreRefused) {
  Start();
  controller_.Welcome();
  Run();
  std::unique_ptr<net::Connection> far_end;
  auto listener = *transport_.Listen("data:1", [&](std::unique_ptr<net::Connection> c) { link_->AcceptPeer(std::move(c)); });
  transport_.Connect("data:1", absl::Seconds(1),
                     [&](absl::StatusOr<std::unique_ptr<net::Connection>> c) { far_end = *std::move(c); });
  Run();
  struct Ears : net::Connection::Handler {
    void OnFrame(net::Frame) override {}
    void OnClosed(const absl::Status& reason) override { closed = reason; }
    absl::Status closed;
  } ears;
  far_end->Start(&ears);
  pathways::v1::PeerMessage hello;
  hello.mutable_hello()->set_incarnation(8);
  far_end->Send(hello.SerializeAsString());
  Run();
  EXPECT_FALSE(ears.closed.ok());
  far_end = nullptr;
}

}  // namespace
}  // namespace pw::worker
