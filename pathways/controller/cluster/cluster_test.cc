#include "pathways/controller/cluster/cluster_impl.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/v1/admin.pb.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ClusterTest, FormsWhenAllHostsHaveJoinedAndNumbersThemByName) {
  TestCluster t(1, 1);  // only its world is used
  ClusterOptions options;
  options.expect_hosts = 3;
  auto cluster = ClusterImpl::Create(options, {&t.executor, &t.timers, &t.clock});
  t.address = *cluster->Listen(&t.transport, "tcp:other:0");
  EXPECT_EQ(cluster->OpenSession("early").status().code(), absl::StatusCode::kUnavailable);
  FakeWorker& b2 = t.Add({"host10", "b", 2});
  FakeWorker& a = t.Add({"x", "a", 2});
  EXPECT_FALSE(cluster->formed());
  EXPECT_THAT(std::string(cluster->OpenSession("early").status().message()), HasSubstr("2 of 3 hosts have joined"));
  EXPECT_TRUE(cluster->OpenSession("an operator", /*observer=*/true).ok()) << "operators ask what is missing";
  FakeWorker& b1 = t.Add({"host2", "b", 2});
  EXPECT_TRUE(cluster->formed());
  EXPECT_THAT(a.welcome.device_ids(), ElementsAre(0, 1));
  EXPECT_THAT(b1.welcome.device_ids(), ElementsAre(2, 3));
  EXPECT_THAT(b2.welcome.device_ids(), ElementsAre(4, 5));
  EXPECT_EQ(b1.welcome.island(), b2.welcome.island());
  EXPECT_EQ(a.peers.peers_size(), 3);
  EXPECT_EQ(a.welcome.incarnation(), b1.welcome.incarnation());
  EXPECT_EQ(cluster->info()->devices.size(), 6u);
  EXPECT_EQ(cluster->info()->devices[4].string_attributes.at("island"), "b");
  EXPECT_EQ(cluster->info()->devices[4].to_string, "FakeDevice(id=4)");
  EXPECT_EQ(cluster->info()->devices[4].debug_string, "id=");
  EXPECT_EQ(cluster->info()->devices[5].debug_string, "fake");
  EXPECT_EQ(cluster->info()->platform_name, "cpu");
  cluster->Stop("end", false, [] {});
  t.Run();
}

TEST(ClusterTest, WorkersMayJoinLater) {
  TestCluster t(1, 2);
  auto before = t.cluster->info();
  FakeWorker& late = t.Add({"late", "i9", 3, "cpu", "1.9.0"});
  EXPECT_EQ(before->devices.size(), 2u);
  EXPECT_EQ(t.cluster->info()->devices.size(), 5u);
  EXPECT_EQ(t.cluster->info()->memories.size(), 10u);
  EXPECT_EQ(t.cluster->info()->stablehlo_version, "1.9.0");  // the oldest
  EXPECT_EQ(t.workers[0]->peers.peers_size(), 2);
  EXPECT_THAT(late.welcome.device_ids(), ElementsAre(2, 3, 4));
  t.Open();
  EXPECT_TRUE(t.Put(1, t.Single(4, {2}), "ab").ok());
  EXPECT_EQ(*t.Fetch(1), "ab");
}

TEST(ClusterTest, RefusesWorkersThatDoNotFit) {
  TestCluster t(1, 2);
  for (const FakeWorker::Options& options :
       {FakeWorker::Options{"a", "i", 2, "cuda"}, FakeWorker::Options{"b", "i", 2, "cpu", "1.0.0", 7},
        FakeWorker::Options{"c", "i", 0}, FakeWorker::Options{"", "i", 1}}) {
    FakeWorker& worker = t.Add(options);
    EXPECT_TRUE(worker.closed) << options.name;
    EXPECT_EQ(worker.Count(Command::kShutdown), 1) << options.name;
    EXPECT_EQ(worker.Count(Command::kWelcome), 0) << options.name;
  }
  EXPECT_EQ(t.cluster->info()->devices.size(), 2u);
}

// A cluster with tokens, whose workers come over a network.
class WithTokens {
 public:
  WithTokens()
      : identity_(*identity::ClusterIdentity::Open(absl::StrCat(::testing::TempDir(), "pw_cluster_test_", ::getpid()), &clock_)) {
  }
  ClusterOptions options() {
    ClusterOptions options;
    options.identity = identity_.get();
    return options;
  }
  identity::ClusterIdentity& identity() { return *identity_; }

 private:
  WallClock clock_;
  const std::unique_ptr<identity::ClusterIdentity> identity_;
};

TEST(ClusterTest, OverANetworkOnlyThoseWithAJoinTokenOrACertificateMayJoin) {
  WithTokens tokens;
  const std::string user = *tokens.identity().CreateToken({"ada"});
  const std::string join = *tokens.identity().CreateToken({"rack1", identity::Role::kWorker, absl::InfiniteFuture(), 1});
  TestCluster t(0, 0, tokens.options());
  t.network.SetProofOfAccepted(net::PeerProof::kStranger);
  const auto refused = [&](const std::string& token) {
    FakeWorker& stranger = t.Add({.name = "a", .island = "i", .devices = 1, .token = token});
    return stranger.closed && stranger.Count(Command::kShutdown) == 1 && stranger.Count(Command::kWelcome) == 0;
  };
  for (const std::string& wrong : {std::string(), std::string("open sesame"), user}) EXPECT_TRUE(refused(wrong)) << wrong;
  EXPECT_EQ(t.Add({.name = "a", .island = "i", .devices = 1, .token = join}).Count(Command::kWelcome), 1);
  EXPECT_TRUE(refused(join)) << "its one use is spent";
  t.network.SetProofOfAccepted(net::PeerProof::kWorker);
  EXPECT_EQ(t.Add({.name = "b", .island = "i", .devices = 1}).Count(Command::kWelcome), 1);
  EXPECT_EQ(t.cluster->info()->devices.size(), 2u);
}

TEST(ClusterTest, WithoutTokensNobodyJoinsOverANetworkUnlessTlsIsOff) {
  TestCluster t(0, 0);
  t.network.SetProofOfAccepted(net::PeerProof::kStranger);
  EXPECT_TRUE(t.Add({.name = "a", .island = "i", .devices = 1}).closed);
  t.network.SetProofOfAccepted(net::PeerProof::kOpen);
  EXPECT_EQ(t.Add({.name = "a", .island = "i", .devices = 1}).Count(Command::kWelcome), 1);
}

// A peer at the workers' address that sends nothing, or messages that it must not send.
class Stranger : public net::Connection::Handler {
 public:
  Stranger(TestCluster* t) {
    t->transport.Connect(t->address, absl::InfiniteDuration(), [this](auto connected) { connection = *std::move(connected); });
    t->Run();
    connection->Start(this);
    t->Run();
  }
  void OnFrame(net::Frame) override {}
  void OnClosed(const absl::Status&) override { closed = true; }
  std::unique_ptr<net::Connection> connection;
  bool closed = false;
};

TEST(ClusterTest, StrangersGetLittleAttentionForAShortTime) {
  WithTokens tokens;
  TestCluster t(1, 1, tokens.options());
  t.network.SetProofOfAccepted(net::PeerProof::kStranger);
  Stranger silent(&t), loud(&t);
  loud.connection->Send(std::string((256 << 10) + 1, 'x'));
  t.Run();
  EXPECT_TRUE(loud.closed);
  EXPECT_FALSE(silent.closed);
  t.timers.Advance(absl::Seconds(7));
  EXPECT_TRUE(silent.closed);
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 65; ++i) crowd.push_back(std::make_unique<Stranger>(&t));
  EXPECT_TRUE(crowd.front()->closed);
  EXPECT_FALSE(crowd[1]->closed) << "only the oldest goes";
}

TEST(ClusterTest, AStrangerSendsFewEventsWhateverTheyAre) {
  WithTokens tokens;
  TestCluster t(1, 1, tokens.options());
  t.network.SetProofOfAccepted(net::PeerProof::kStranger);
  ::pathways::v1::FromWorker pongs;
  pongs.add_events()->mutable_pong();
  Stranger patient(&t), dense(&t);
  for (int i = 0; i < 4; ++i) patient.connection->Send(pongs.SerializeAsString());
  t.Run();
  EXPECT_FALSE(patient.closed);
  patient.connection->Send(pongs.SerializeAsString());
  t.Run();
  EXPECT_TRUE(patient.closed);
  pongs.add_events();
  dense.connection->Send(pongs.SerializeAsString());
  t.Run();
  EXPECT_TRUE(dense.closed);
}

TEST(ClusterTest, AHostsCertificateIsMadeAnewWhileItRuns) {
  WithTokens tokens;
  ClusterOptions options = tokens.options();
  options.heartbeat_limit = absl::Hours(40);
  TestCluster t(0, 0, options);
  FakeWorker& host = t.Add({.name = "a",
                            .island = "i",
                            .devices = 1,
                            .public_key = *net::PublicKeyOf(*net::NewKey()),
                            .next_public_key = *net::PublicKeyOf(*net::NewKey())});
  FakeWorker& without = t.Add({.name = "b", .island = "i", .devices = 1});
  EXPECT_EQ(*net::AuthorityFingerprint(host.welcome.certificate()), tokens.identity().authority());
  for (int hour = 0; hour < 50; ++hour) t.timers.Advance(absl::Hours(1));
  ASSERT_EQ(host.Count(Command::kCertificate), 2);
  EXPECT_EQ(host.Count(Command::kNewKey), 2);
  EXPECT_EQ(without.Count(Command::kNewKey), 0);
  std::string renewed;
  for (const Command& command : host.log) {
    if (command.has_certificate()) renewed = command.certificate().chain();
  }
  EXPECT_EQ(*net::AuthorityFingerprint(renewed), tokens.identity().authority());
  EXPECT_NE(renewed, host.welcome.certificate());
}

// Hosts refuse each other without it (worker/transfer/peer_connections.h, PE-1).
TEST(ClusterTest, WhatHostsShowEachOtherCannotBeToldFromTheTime) {
  const auto joined = [] {
    TestCluster t(0, 0);
    FakeWorker& a = t.Add({.name = "a", .island = "i", .devices = 1});
    FakeWorker& b = t.Add({.name = "b", .island = "i", .devices = 1});
    EXPECT_EQ(a.welcome.incarnation(), b.welcome.incarnation());
    return a.welcome.incarnation();
  };
  EXPECT_NE(joined(), joined()) << "these clocks begin at the same time";
}

TEST(ClusterTest, ADeadHostPoisonsItsArraysAndNothingElse) {
  TestCluster t(2, 2);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {2}), "ab").ok());
  ASSERT_TRUE(t.Put(2, t.Rows(0, 4, {4}), "abcd").ok());
  ASSERT_TRUE(t.Put(3, t.Single(3, {2}), "xy").ok());
  ASSERT_TRUE(t.Ready({1, 2, 3}).ok());
  t.workers[1]->Die();
  t.Run();
  EXPECT_TRUE(t.Ready({1}).ok());
  EXPECT_EQ(*t.Fetch(1), "ab");
  for (Handle lost : {2, 3}) {
    const absl::Status status = t.Ready({lost});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("host 'w1' of island 'i1' is gone since "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("; waiting for a host to take its seat (its devices 2,3 "));
  }
  EXPECT_EQ(t.Put(4, t.Single(2, {1}), "x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(t.workers[0]->peers.peers_size(), 1);
  EXPECT_EQ(t.cluster->info()->devices.size(), 2u);
  const std::vector<DeviceInfo> seats = t.cluster->Spares(t.session->id())->devices;
  ASSERT_GE(seats.size(), 2u) << "clients that come now may wait for it, too";
  EXPECT_EQ(seats.back().id, DeviceId(3));
  EXPECT_EQ(seats.back().string_attributes.at("host"), "w1");
  FakeWorker& again = t.Add({"w1", "i1", 2});
  EXPECT_THAT(again.welcome.device_ids(), ElementsAre(2, 3)) << "it takes its seat";
}

TEST(ClusterTest, WhatWaitsForALostHostFails) {
  TestCluster t(2, 2);
  t.Open();
  t.workers[1]->hold_compiled = true;
  ASSERT_TRUE(t.Put(1, t.Single(2, {1}), "a").ok());
  t.Run();
  t.workers[1]->silent = true;
  absl::Status fetched, ready, compiled;
  ASSERT_TRUE(t.Put(2, t.Single(2, {1}), "a").ok());
  t.session->CopyToHostBuffer(1, 50, std::nullopt, [&](absl::Status s) { fetched = s; });
  t.session->WhenReady({2}, [&](absl::Status s) { ready = s; });
  CompileRequest request;
  request.devices = t.Devices(2, 1);
  t.session->Compile(request, [&](auto info) { compiled = info.status(); });
  t.Run();
  EXPECT_TRUE(fetched.ok() && ready.ok() && compiled.ok());
  t.workers[1]->Die();
  t.Run();
  for (const absl::Status& status : {fetched, ready, compiled}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'w1'"));
  }
}

TEST(ClusterTest, AWorkerThatTalksNonsenseIsLost) {
  for (int kind = 0; kind < 3; ++kind) {
    TestCluster t(1, 1);
    ::pathways::v1::FromWorker message;
    if (kind == 0) message.add_events()->mutable_hello();
    if (kind == 1) message.add_events()->mutable_chunk()->set_payload_bytes(10);
    if (kind == 2) message.add_events();
    t.workers[0]->Send(message);
    t.Run();
    EXPECT_TRUE(t.workers[0]->closed) << kind;
    EXPECT_EQ(t.cluster->OpenSession("x").status().code(), absl::StatusCode::kUnavailable) << kind;
  }
}

TEST(ClusterTest, AnswersThatNobodyAskedForAreIgnored) {
  TestCluster t(1, 1);
  ::pathways::v1::FromWorker message;
  message.add_events()->mutable_done()->add_ok(1234);
  message.add_events()->mutable_fetched()->set_fetch(77);
  message.add_events()->mutable_compiled()->set_executable(77);
  message.add_events()->mutable_chunk()->set_transfer(77);
  t.workers[0]->Send(message);
  t.Run();
  EXPECT_FALSE(t.workers[0]->closed);
}

TEST(ClusterTest, StatusNamesEverything) {
  TestCluster t(2, 2);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {8}), "01234567").ok());
  auto json = t.Await<std::string>([&](auto done) { t.cluster->GetStatus(std::move(done)); });
  ASSERT_TRUE(json.ok()) << json.status();
  for (const char* text : {"\"state\":\"formed\"", "\"name\":\"w1\"", "\"pid\":4242", "\"used_bytes\":101",
                           "\"description\":\"a test\"", "\"arrays\":1", "\"array_bytes\":8", "\"put\":1"}) {
    EXPECT_THAT(*json, HasSubstr(text));
  }
  t.workers[1]->silent = true;
  std::string late;
  t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { late = *text; });
  t.Run();
  EXPECT_EQ(late, "");  // waits for w1, for a limited time
  t.timers.Advance(absl::Seconds(1));
  EXPECT_THAT(late, HasSubstr("\"name\":\"w1\""));
}

TEST(ClusterTest, OperatorsAskOnTheWorkersAddress) {
  TestCluster t(1, 1);
  struct Operator : net::Connection::Handler {
    void OnFrame(net::Frame frame) override { ASSERT_TRUE(reply.ParseFromString(frame.header)); }
    void OnClosed(const absl::Status&) override { closed = true; }
    ::pathways::v1::AdminReply reply;
    bool closed = false;
  } asker;
  std::unique_ptr<net::Connection> connection;
  t.transport.Connect(t.address, absl::Seconds(1), [&](auto connected) {
    connection = *std::move(connected);
    connection->Start(&asker);
    ::pathways::v1::AdminRequest request;
    request.mutable_status();
    connection->Send(request.SerializeAsString());
  });
  t.Run();
  EXPECT_THAT(asker.reply.json(), HasSubstr("\"joined_hosts\":1"));
  EXPECT_THAT(asker.reply.json(), HasSubstr("\"workers_address\":\"tcp:controller:"));
  EXPECT_TRUE(asker.closed);
  connection = nullptr;
}

TEST(ClusterTest, HostCallsReachTheirClientAndComeBack) {
  TestCluster t(1, 1);
  t.Open();
  struct Doubler : HostCallHandler {
    void OnHostCall(HostCall call, ResultCallback<std::vector<Bytes>> done) override {
      EXPECT_EQ(call.callback, 9u);
      std::vector<Bytes> results = {call.data[0], call.data[0]};
      std::move(done)(std::move(results));
    }
  };
  t.workers[0]->CallHost(5, t.session->id().v, 9, "abc");
  t.Run();
  EXPECT_EQ(t.workers[0]->host_replies[5].first.status().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  t.cluster->SetHostCallHandler(t.session->id(), std::make_shared<Doubler>());
  t.workers[0]->CallHost(6, t.session->id().v, 9, "abc");
  t.Run();
  EXPECT_EQ(t.workers[0]->host_replies[6].second, "abcabc");
  EXPECT_THAT(t.workers[0]->host_replies[6].first.result_bytes(), ElementsAre(3, 3));
  const uint64_t id = t.session->id().v;
  t.session = nullptr;
  t.workers[0]->CallHost(7, id, 9, "abc");
  t.Run();
  EXPECT_NE(t.workers[0]->host_replies[7].first.status().code(), 0);
}

TEST(ClusterTest, StopTellsTheWorkersItOwns) {
  TestCluster t(1, 1);
  bool stopped = false;
  t.cluster->Stop("enough", true, [&] { stopped = true; });
  t.Run();
  EXPECT_TRUE(stopped);
  EXPECT_EQ(t.workers[0]->Count(Command::kShutdown), 1);
  EXPECT_TRUE(t.workers[0]->closed);
}

// Client programs may outlive the stopped cluster: their requests then reach no connection.
TEST(ClusterTest, ASessionMayGoOnAfterTheStop) {
  TestCluster t(1, 1);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {2}), "ab").ok());
  t.Run();
  t.cluster->Stop("enough", true, [] {});
  t.Run();
  t.Put(2, t.Single(0, {2}), "cd").IgnoreError();
  t.session->Destruct({1}).IgnoreError();
  t.Run();
  EXPECT_EQ(t.workers[0]->Count(Command::kPut), 1);
}

}  // namespace
}  // namespace pw::controller
