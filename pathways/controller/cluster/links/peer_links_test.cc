#include "pathways/controller/cluster/links/peer_links.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw::controller {
namespace {

using ::pathways::v1::FromWorker;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Notes its calls.
class NotingHandler : public PeerLinks::Handler {
 public:
  void OnHello(LinkId link, const ::pathways::v1::Hello& hello) override { Note("hello ", link, " ", hello.host_name()); }
  void OnResume(LinkId link, const ::pathways::v1::Resume& resume) override { Note("resume ", link, " ", resume.host()); }
  void OnAdminRequest(LinkId link, const identity::Caller& caller, const ::pathways::v1::AdminRequest&) override {
    Note("asked ", link, caller.is_operator() ? " by an operator" : "");
  }
  absl::Status OnHostFrame(HostId host, const FromWorker&, size_t) override {
    Note("frame of ", host.v);
    return frame_status;
  }
  absl::Status OnHostEvent(HostId host, const ::pathways::v1::Event&, Bytes) override {
    Note("event of ", host.v);
    return event_status;
  }
  void OnHostWritable(HostId host) override { Note("writable ", host.v); }
  void OnHostBroken(HostId host, const absl::Status& reason) override { Note("broken ", host.v, ": ", reason.message()); }
  void OnHostLost(HostId host, const absl::Status& reason) override { Note("lost ", host.v, ": ", reason.message()); }
  void OnPendingLeft(LinkId link, const absl::Status& reason) override { Note("left ", link, ": ", reason.message()); }
  void OnRuntimeMessage(LinkId link, const ::pathways::v1::FromRuntime& message) override {
    Note("runtime ", link, " ", message.has_join() ? message.join().host_name() : message.get().key());
  }
  void OnRuntimeLeft(LinkId link, const absl::Status& reason) override { Note("runtime left ", link, ": ", reason.message()); }

  std::vector<std::string> Take() { return std::exchange(notes_, {}); }
  absl::Status frame_status, event_status;

 private:
  template <class... T>
  void Note(const T&... text) {
    notes_.push_back(absl::StrCat(text...));
  }
  std::vector<std::string> notes_;
};

// The other end of a link.
class Peer : public net::Connection::Handler {
 public:
  void OnFrame(net::Frame frame) override {
    ::pathways::v1::ToWorker message;
    if (message.ParseFromString(frame.header) && message.commands_size() > 0) last = message.commands(0);
    ::pathways::v1::AdminReply reply;
    if (reply.ParseFromString(frame.header)) json = reply.json();
  }
  void OnClosed(const absl::Status&) override { closed = true; }

  std::unique_ptr<net::Connection> connection;
  ::pathways::v1::Command last;
  std::string json;
  bool closed = false;
};

class PeerLinksTest : public ::testing::Test {
 protected:
  PeerLinksTest() { address_ = *links_.Listen(&transport_, "tcp:controller:0"); }
  ~PeerLinksTest() override {
    links_.Stop("the test ends", /*stop_workers=*/false);
    executor_.RunUntilIdle();
  }
  std::unique_ptr<Peer> Connect() {
    auto peer = std::make_unique<Peer>();
    transport_.Connect(address_, absl::Seconds(1), [&](auto connected) { peer->connection = *std::move(connected); });
    executor_.RunUntilIdle();
    peer->connection->Start(peer.get());
    return peer;
  }
  template <class M>
  void Send(Peer& peer, const M& message) {
    peer.connection->Send(message.SerializeAsString());
    executor_.RunUntilIdle();
  }
  static FromWorker Hello(const std::string& name = "w") {
    FromWorker message;
    message.add_events()->mutable_hello()->set_host_name(name);
    return message;
  }
  static FromWorker Done() {
    FromWorker message;
    message.add_events()->mutable_done()->add_ok(1);
    return message;
  }
  // A peer that is host 7, on the next link.
  std::unique_ptr<Peer> Host(LinkId link) {
    auto peer = Connect();
    Send(*peer, Hello());
    links_.SetHost(link, HostId(7));
    handler_.Take();
    return peer;
  }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  Strand strand_{&executor_};
  const ClusterOptions options_;
  const std::shared_ptr<int> cluster_ = std::make_shared<int>();
  NotingHandler handler_;
  PeerLinks links_{ClusterContext(cluster_, &options_, &clock_, &timers_, &strand_), &handler_};
  std::string address_;
};

TEST_F(PeerLinksTest, OnlyTheFirstMessageOfANewLinkIsAHello) {
  const auto peer = Connect();
  Send(*peer, Hello("w1"));
  EXPECT_THAT(handler_.Take(), ElementsAre("hello 1 w1"));
  links_.SetPending(1);
  Send(*peer, Hello("w2"));
  EXPECT_THAT(handler_.Take(), ElementsAre(HasSubstr("left 1: a worker's first message must be a hello")));
  EXPECT_TRUE(peer->closed);
}

TEST_F(PeerLinksTest, WhatOnlyAHostMaySendEndsAnotherLink) {
  const auto peer = Connect();
  Send(*peer, Done());
  EXPECT_THAT(handler_.Take(), IsEmpty());
  EXPECT_TRUE(peer->closed);
}

TEST_F(PeerLinksTest, TheMessagesOfAHostNameIt) {
  const auto peer = Host(1);
  Send(*peer, Done());
  EXPECT_THAT(handler_.Take(), ElementsAre("frame of 7", "event of 7"));
  peer->connection->Close(absl::CancelledError("enough"));
  executor_.RunUntilIdle();
  EXPECT_THAT(handler_.Take(), ElementsAre(testing::StartsWith("broken 7: ")));
}

TEST_F(PeerLinksTest, AHostThatSaysGoodbyeOrSendsNonsenseIsLost) {
  FromWorker goodbye;
  goodbye.add_events()->mutable_goodbye()->set_reason("it was told to");
  goodbye.add_events()->mutable_pong();
  const auto leaving = Host(1);
  Send(*leaving, goodbye);
  EXPECT_THAT(handler_.Take(), ElementsAre("frame of 7", "lost 7: its worker ended: it was told to"));
  links_.Close(1, absl::CancelledError("lost"));
  const auto wrong = Host(2);
  handler_.event_status = absl::InternalError("nonsense");
  Send(*wrong, Done());
  EXPECT_THAT(handler_.Take(), ElementsAre("frame of 7", "event of 7", "lost 7: nonsense"));
  handler_.frame_status = absl::InternalError("wrong counts");
  Send(*wrong, Done());
  EXPECT_THAT(handler_.Take(), ElementsAre("frame of 7", "lost 7: wrong counts")) << "its events are dropped";
}

TEST_F(PeerLinksTest, WhatComesOnALinkThatWasEndedIsDropped) {
  const auto peer = Host(1);
  peer->connection->Send(Done().SerializeAsString());
  links_.GiveUp(1, "away for too long");
  executor_.RunUntilIdle();
  EXPECT_THAT(handler_.Take(), IsEmpty());
  EXPECT_EQ(peer->last.given_up().reason(), "away for too long");
  EXPECT_TRUE(peer->closed);
  EXPECT_THAT(links_.Peers(), IsEmpty());
}

TEST_F(PeerLinksTest, AStrangerIsRefusedAndAWorkerThatIsLetInMayResume) {
  network_.SetProofOfAccepted(net::PeerProof::kStranger);
  const auto stranger = Connect();
  Send(*stranger, Hello());
  EXPECT_THAT(handler_.Take(), IsEmpty());
  EXPECT_TRUE(stranger->last.has_shutdown());
  EXPECT_TRUE(stranger->closed);
  network_.SetProofOfAccepted(net::PeerProof::kOpen);
  const auto open = Connect();
  FromWorker resume;
  resume.add_events()->mutable_resume()->set_host(3);
  Send(*open, resume);
  EXPECT_THAT(handler_.Take(), ElementsAre("resume 2 3"));
}

TEST_F(PeerLinksTest, ADeviceRuntimeJoinsAWorldFirstAndOnce) {
  ::pathways::v1::FromRuntime join, get;
  join.mutable_join()->set_host_name("w1");
  get.mutable_get()->set_key("k");
  const auto peer = Connect();
  Send(*peer, join);
  Send(*peer, get);
  EXPECT_THAT(handler_.Take(), ElementsAre("runtime 1 w1", "runtime 1 k"));
  ASSERT_EQ(links_.Peers().size(), 1u);
  EXPECT_TRUE(links_.Peers()[0].waits) << "it is pinged";
  Send(*peer, join);
  EXPECT_THAT(handler_.Take(), ElementsAre(HasSubstr("runtime left 1: a device runtime's first message must join a world")));
  EXPECT_TRUE(peer->closed);
  const auto early = Connect();
  Send(*early, get);
  EXPECT_TRUE(early->closed);
  const auto host = Host(3);
  Send(*host, get);
  EXPECT_THAT(handler_.Take(), ElementsAre(testing::StartsWith("lost 7: a device runtime's first message")));
}

TEST_F(PeerLinksTest, ADeviceRuntimeIsLetInAsItsWorkerIsAndSendsNoLargeFrames) {
  ::pathways::v1::FromRuntime join, large;
  join.mutable_join()->set_host_name("w1");
  large.mutable_put()->set_value(std::string(kRuntimeBytes, 'x'));
  network_.SetProofOfAccepted(net::PeerProof::kStranger);
  const auto stranger = Connect();
  Send(*stranger, join);
  EXPECT_THAT(handler_.Take(), IsEmpty());
  EXPECT_TRUE(stranger->last.has_shutdown());
  network_.SetProofOfAccepted(net::PeerProof::kOpen);
  const auto worker = Connect();
  Send(*worker, join);
  EXPECT_THAT(handler_.Take(), ElementsAre("runtime 2 w1"));
  Send(*worker, large);
  EXPECT_TRUE(worker->closed);
}

TEST_F(PeerLinksTest, StrangersThatAreTooSlowAreNotTold) {
  network_.SetProofOfAccepted(net::PeerProof::kStranger);
  const auto slow = Connect();
  clock_.now += absl::Seconds(6);
  const auto later = Connect();
  links_.DropSlowStrangers(clock_.now);
  executor_.RunUntilIdle();
  EXPECT_TRUE(slow->closed);
  EXPECT_FALSE(slow->last.has_shutdown()) << "its next attempt may succeed";
  EXPECT_FALSE(later->closed);
}

TEST_F(PeerLinksTest, AnOperatorIsAnsweredOnce) {
  const auto peer = Connect();
  ::pathways::v1::AdminRequest request;
  request.mutable_status();
  Send(*peer, request);
  EXPECT_THAT(handler_.Take(), ElementsAre("asked 1 by an operator"));
  links_.Answer(1, std::string("{}"));
  executor_.RunUntilIdle();
  EXPECT_EQ(peer->json, "{}");
  EXPECT_TRUE(peer->closed);
  links_.Answer(1, std::string("its peer has gone"));
}

TEST_F(PeerLinksTest, ASilentHostIsBrokenAndAnotherSilentPeerIsDropped) {
  const auto host = Host(1), silent = Connect();
  links_.OnSilent(1);
  links_.OnSilent(2);
  executor_.RunUntilIdle();
  EXPECT_THAT(handler_.Take(), ElementsAre("broken 7: nothing heard from it for 10s"));
  EXPECT_FALSE(host->closed) << "the handler decides";
  EXPECT_TRUE(silent->closed);
}

TEST_F(PeerLinksTest, StopTellsWorkersAndLetsNobodyIn) {
  const auto peer = Host(1);
  links_.Stop("the cluster ends", /*stop_workers=*/true);
  executor_.RunUntilIdle();
  EXPECT_EQ(peer->last.shutdown().reason(), "the cluster ends");
  EXPECT_TRUE(peer->closed);
  EXPECT_THAT(handler_.Take(), IsEmpty());
  absl::Status connected;
  transport_.Connect(address_, absl::Seconds(1), [&](auto connection) { connected = connection.status(); });
  executor_.RunUntilIdle();
  EXPECT_FALSE(connected.ok());
}

}  // namespace
}  // namespace pw::controller
