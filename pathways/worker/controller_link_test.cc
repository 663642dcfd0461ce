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
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

class ManualTime : public Clock, public Timers {
 public:
  absl::Time Now() override { return now_; }
  void After(absl::Duration delay, Executor* executor, Task task) override {
    due_.emplace(now_ + delay, std::make_pair(executor, std::move(task)));
  }
  void Advance(absl::Duration by) {
    now_ += by;
    while (!due_.empty() && due_.begin()->first <= now_) {
      auto entry = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      entry.first->Post(std::move(entry.second));
    }
  }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::multimap<absl::Time, std::pair<Executor*, Task>> due_;
};

// The controller's end.
class FakeController : public net::Connection::Handler {
 public:
  void Accept(std::unique_ptr<net::Connection> c) {
    connection = std::move(c);
    connection->Start(this);
    ++connections;
  }
  void OnFrame(net::Frame frame) override {
    v1::FromWorker message;
    ASSERT_TRUE(message.ParseFromString(frame.header));
    for (const v1::Event& event : message.events()) events.push_back(event);
    if (!message.beside()) ++counted;
    if (message.has_received()) received = message.received();
  }
  void OnClosed(const absl::Status& reason) override { closed = reason; }
  void Send(const v1::Command& command, const std::string& payload = "") {
    v1::ToWorker batch;
    *batch.add_commands() = command;
    std::vector<Bytes> pieces;
    if (!payload.empty()) pieces.push_back(Bytes::Copy(payload));
    connection->Send(batch.SerializeAsString(), std::move(pieces), net::Lane::kUrgent);
  }
  void Welcome(double heartbeat = 1, const std::string& key = "") {
    v1::Command command;
    command.mutable_welcome()->set_key(key);
    command.mutable_welcome()->set_host(3);
    command.mutable_welcome()->set_incarnation(9);
    command.mutable_welcome()->set_heartbeat_seconds(heartbeat);
    Send(command);
  }
  void Ping(uint64_t sequence) {
    v1::Command command;
    command.mutable_ping()->set_sequence(sequence);
    SendBeside(command);
  }
  void SendBeside(const v1::Command& command) {
    v1::ToWorker batch;
    batch.set_beside(true);
    *batch.add_commands() = command;
    connection->Send(batch.SerializeAsString());
  }
  void Resumed(uint64_t received) {
    v1::Command command;
    command.mutable_resumed()->mutable_received()->set_urgent(received);
    SendBeside(command);
  }
  void Put(uint64_t array) {
    v1::Command put;
    put.mutable_put()->set_op(2 * array);
    put.mutable_put()->set_array(array);
    put.mutable_put()->set_dtype(11);
    put.mutable_put()->set_total_bytes(4);
    put.mutable_put()->set_payload_bytes(4);
    put.mutable_put()->add_placements();
    Send(put, "abcd");
  }

  std::unique_ptr<net::Connection> connection;
  std::vector<v1::Event> events;
  uint64_t counted = 0;  // frames of the stream
  v1::ReceivedFrames received;
  absl::Status closed;
  int connections = 0;
};

class LinkTest : public ::testing::Test {
 protected:
  void Start(bool exit_with_controller = false, bool listen = true) {
    if (listen) Listen();
    environment_.runtime = &runtime_;
    environment_.strand = &strand_;
    environment_.clock = &time_;
    environment_.compile_pool = &executor_;
    environment_.compile_cache = std::make_shared<CompileCache>("", 0);
    environment_.transport = &transport_;
    environment_.next_launch_id = &launch_id_;
    LinkOptions options;
    options.controller = "controller:1";
    options.host_name = "hosta";
    options.island = "i0";
    options.data_address = "hosta:2";
    options.exit_with_controller = exit_with_controller;
    options.tls = tls_;
    link_ = std::make_unique<ControllerLink>(environment_, &strand_, &time_, options,
                                             [this](const absl::Status& s) { finished_.push_back(s); });
    link_->Start();
    Run();
  }
  void Listen() {
    listener_ =
        *transport_.Listen("controller:1", [this](std::unique_ptr<net::Connection> c) { controller_.Accept(std::move(c)); });
  }
  void Run() { executor_.RunUntilIdle(); }
  void Advance(absl::Duration by) {
    time_.Advance(by);
    Run();
  }
  void TearDown() override {
    bool stopped = false;
    link_->Stop("end of test", [&] { stopped = true; });
    Run();
    EXPECT_TRUE(stopped);
    link_ = nullptr;
    controller_.connection = nullptr;
    Run();
  }

  ManualExecutor executor_;
  ManualTime time_;
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  device::SimulatedRuntime runtime_{{3, &executor_}};
  Strand strand_{&executor_};
  int launch_id_ = 0;
  Environment environment_;
  std::shared_ptr<net::Tls> tls_;  // null: TLS is off
  FakeController controller_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<ControllerLink> link_;
  std::vector<absl::Status> finished_;
};

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
  const std::string key = controller_.events[0].hello().public_key();
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
  command.mutable_certificate()->set_chain(certify());
  controller_.Send(command);
  Run();
  EXPECT_TRUE(controller_.closed.ok()) << controller_.closed;
  command.mutable_certificate()->set_chain("nonsense");
  controller_.Send(command);
  Run();
  EXPECT_FALSE(controller_.closed.ok()) << "a host without a certificate that holds joins again";
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

// A worker that has joined a controller with a grace time, and holds array 5 and a program. The connection cannot be made again, as over
// a Unix socket, unless there is a key.
class OrphanTest : public LinkTest {
 protected:
  void Join(bool exit_with_controller = false, const std::string& key = "") {
    Start(exit_with_controller);
    Take(7, 9, key);
    controller_.Put(5);
    Run();
    EXPECT_FALSE(Compile().from_cache());
  }
  // The controller welcomes the worker.
  void Take(uint64_t epoch, uint64_t incarnation, const std::string& key = "") {
    v1::Command command;
    auto* welcome = command.mutable_welcome();
    welcome->set_key(key);
    welcome->set_host(3);
    welcome->set_incarnation(incarnation);
    welcome->set_heartbeat_seconds(1000);
    welcome->set_epoch(epoch);
    welcome->set_controller_grace_seconds(60);
    welcome->mutable_place()->set_seat(static_cast<uint32_t>(epoch));
    controller_.Send(command);
    Run();
  }
  v1::Compiled Compile(const std::string& program = device::kAdd) {
    v1::Command command;
    auto* c = command.mutable_compile();
    c->set_executable(++executables_);
    c->set_session(1);
    c->set_format("sim");
    c->set_program_bytes(program.size());
    c->set_num_replicas(1);
    c->set_num_partitions(2);
    c->add_local_devices(0);
    c->add_local_devices(1);
    controller_.Send(command, program);
    Run();
    EXPECT_TRUE(controller_.events.back().has_compiled());
    EXPECT_EQ(controller_.events.back().compiled().executable(), executables_);
    EXPECT_EQ(controller_.events.back().compiled().status().code(), 0);
    return controller_.events.back().compiled();
  }
  // The process of the controller ends; another one may take its address later.
  void End() {
    listener_ = nullptr;
    controller_.connection = nullptr;
    Run();
  }
  void Return() {
    Listen();
    Advance(absl::Seconds(1));
  }
  const v1::Hello& hello() { return controller_.events.back().hello(); }

  uint64_t executables_ = 0;
};

TEST_F(OrphanTest, KeepsEverythingUntilTheNextControllerTakesItAndTellsItsPlace) {
  Join();
  End();
  for (int i = 0; i < 50; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(link_->arrays(), 1);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_EQ(hello().epoch(), 7u);
  EXPECT_EQ(hello().former().place().seat(), 7u);
  EXPECT_EQ(hello().former().arrays(), 1);
  EXPECT_EQ(hello().former().programs(), 1);
  EXPECT_EQ(link_->arrays(), 1) << "the next controller has not taken it yet";
  Take(8, 10);
  EXPECT_EQ(link_->arrays(), 0) << "no session can ask for them";
  EXPECT_TRUE(Compile().from_cache()) << "its programs stay loaded";
  EXPECT_TRUE(Compile().from_cache()) << "for all sessions";
  EXPECT_FALSE(Compile(device::kDonate).from_cache());
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
}

TEST_F(OrphanTest, IsTakenByTheControllerThatAnswersInPlaceOfItsOwn) {
  Join(false, "the key");
  controller_.connection = nullptr;
  Run();
  ASSERT_TRUE(controller_.events.back().has_resume());
  EXPECT_EQ(controller_.events.back().resume().epoch(), 7u);
  v1::Command command;
  command.mutable_given_up()->set_reason("it keeps no host 3");
  command.mutable_given_up()->set_incarnation(10);
  controller_.SendBeside(command);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
  Advance(absl::Milliseconds(100));
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_TRUE(hello().has_former());
  Take(8, 10, "another key");
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, AHostThatItsOwnControllerHasGivenUpKeepsOnlyItsPrograms) {
  Join(false, "the key");
  controller_.connection = nullptr;
  Run();
  v1::Command command;
  command.mutable_given_up()->set_reason("it was away for too long");
  command.mutable_given_up()->set_incarnation(9);
  controller_.SendBeside(command);
  Run();
  EXPECT_EQ(link_->arrays(), 0);
  Advance(absl::Seconds(1));
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
  EXPECT_EQ(hello().epoch(), 7u);
  Take(7, 9, "another key");
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, AControllerWhoseAddressNobodyHasServedForAWhileFindsItsHostAgain) {
  Join(false, "the key");
  End();
  for (int i = 0; i < 500; ++i) Advance(absl::Milliseconds(100));
  Return();
  ASSERT_TRUE(controller_.events.back().has_resume()) << "perhaps only a tunnel had ended";
  controller_.Resumed(controller_.counted);
  controller_.Put(7);
  Run();
  EXPECT_EQ(link_->arrays(), 2);
}

TEST_F(OrphanTest, AnAddressThatNobodyServesForTheGraceTimeIsGivenUp) {
  Join(false, "the key");
  End();
  for (int i = 0; i < 550; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 1);
  for (int i = 0; i < 100; ++i) Advance(absl::Milliseconds(100));
  EXPECT_EQ(link_->arrays(), 0);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
}

TEST_F(OrphanTest, RefusesAnEarlierControllerAndWaitsForTheNextOne) {
  Join();
  End();
  Return();
  const int connections = controller_.connections;
  Take(6, 10);
  EXPECT_EQ(link_->arrays(), 1);
  EXPECT_FALSE(controller_.closed.ok());
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1) << "it is not obeyed";
  Advance(absl::Seconds(1));
  EXPECT_EQ(controller_.connections, connections + 1);
  Take(8, 11);
  EXPECT_EQ(link_->arrays(), 0);
  EXPECT_TRUE(Compile().from_cache());
}

TEST_F(OrphanTest, GivesUpAfterTheGraceTimeAndJoinsAsANewHost) {
  Join();
  End();
  for (int i = 0; i < 62; ++i) Advance(absl::Seconds(1));
  EXPECT_EQ(link_->arrays(), 0);
  Return();
  ASSERT_TRUE(controller_.events.back().has_hello());
  EXPECT_FALSE(hello().has_former());
  EXPECT_EQ(hello().epoch(), 0u) << "it holds nothing of any controller";
  Take(6, 10);
  EXPECT_FALSE(Compile().from_cache());
}

TEST_F(OrphanTest, ProgramsThatNobodyCompilesAgainAreFreedAfterTheGraceTime) {
  Join();
  Compile(device::kDonate);
  End();
  Return();
  Take(8, 10);
  EXPECT_TRUE(Compile().from_cache());
  for (int i = 0; i < 62; ++i) Advance(absl::Seconds(1));
  EXPECT_FALSE(Compile(device::kDonate).from_cache());
}

TEST_F(OrphanTest, AControllerThatTakesItButHasNotFormedYetDoesNotEndTheGraceTime) {
  Join(true);
  End();
  Return();
  for (uint64_t i = 1; i <= 20; ++i) {
    controller_.Ping(i);
    Advance(absl::Seconds(3));
  }
  EXPECT_EQ(link_->arrays(), 0);
  EXPECT_TRUE(finished_.empty()) << "it has a controller";
  Take(8, 10);
  controller_.Put(6);
  Run();
  EXPECT_EQ(link_->arrays(), 1);
}

TEST_F(OrphanTest, OneThatExitsWithItsControllerWaitsForTheGraceTime) {
  Join(true);
  End();
  for (int i = 0; i < 55; ++i) Advance(absl::Seconds(1));
  EXPECT_TRUE(finished_.empty());
  for (int i = 0; i < 7; ++i) Advance(absl::Seconds(1));
  EXPECT_THAT(finished_, testing::ElementsAre(absl::OkStatus()));
}

TEST_F(OrphanTest, ARefusalByTheNextControllerEndsTheWorkerWithTheReason) {
  Join();
  End();
  Return();
  v1::Command command;
  command.mutable_shutdown()->set_reason("this cluster runs on cuda");
  controller_.SendBeside(command);
  Run();
  ASSERT_EQ(finished_.size(), 1u);
  EXPECT_THAT(std::string(finished_[0].message()), HasSubstr("this cluster runs on cuda"));
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
