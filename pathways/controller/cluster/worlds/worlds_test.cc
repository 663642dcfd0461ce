#include "pathways/controller/cluster/worlds/worlds.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::FromRuntime;
using ::pathways::v1::ToRuntime;
using ::pathways::v1::ToWorker;
using ::testing::HasSubstr;

// A device runtime's end of its connection.
class FakeRuntime : public net::Connection::Handler {
 public:
  FakeRuntime(TestCluster* cluster, const std::string& name, uint32_t hosts, const std::string& run)
      : cluster_(cluster), name_(name), hosts_(hosts), run_(run) {}

  void Join() { Connect("", 0); }
  void ComeBack() { Connect(formed.world(), formed.node()); }
  void ComeBackAndReadNothing() { Connect(formed.world(), formed.node(), /*reads=*/false); }
  // The network breaks.
  void Break() {
    connection_ = nullptr;
    cluster_->Run();
  }
  // Each is request `number`.
  void Put(uint64_t number, const std::string& key, const std::string& value) {
    FromRuntime message;
    message.mutable_put()->set_request(number);
    message.mutable_put()->set_key(key);
    message.mutable_put()->set_value(value);
    Send(message);
  }
  void Get(uint64_t number, const std::string& key, absl::Duration wait) {
    FromRuntime message;
    message.mutable_get()->set_request(number);
    message.mutable_get()->set_key(key);
    message.mutable_get()->set_wait_milliseconds(absl::ToInt64Milliseconds(wait));
    Send(message);
  }
  void Send(const FromRuntime& message) {
    connection_->Send(message.SerializeAsString());
    cluster_->Run();
  }
  // Returns the value or the error of a request, or "" while it waits.
  std::string Answer(uint64_t number) const {
    const auto it = answers_.find(number);
    if (it == answers_.end()) return "";
    return it->second;
  }

  ::pathways::v1::WorldFormed formed;
  std::string over, refused;
  bool closed = false;
  int pings = 0;

 private:
  void Connect(const std::string& world, uint32_t node, bool reads = true) {
    closed = false;
    cluster_->transport.Connect(cluster_->address, absl::Seconds(1),
                                [this](auto connected) { connection_ = *std::move(connected); });
    cluster_->executor.RunUntilIdle();
    if (reads) connection_->Start(this);
    FromRuntime message;
    message.mutable_join()->set_island("i");
    message.mutable_join()->set_host_name(name_);
    message.mutable_join()->set_hosts(hosts_);
    message.mutable_join()->set_world(world);
    message.mutable_join()->set_node(node);
    message.mutable_join()->set_run(run_);
    Send(message);
  }
  void OnFrame(net::Frame frame) override {
    ToRuntime message;
    ASSERT_TRUE(message.ParseFromString(frame.header));
    if (message.has_formed()) formed = message.formed();
    if (message.has_over()) over = message.over().reason();
    if (message.has_answer()) {
      const ::pathways::v1::Status& status = message.answer().status();
      const std::string answer = status.code() == 0 ? std::string(frame.payload.view()) : status.message();
      EXPECT_TRUE(answers_.emplace(message.answer().request(), answer).second) << "answered twice";
    }
    if (message.kind_case() != ToRuntime::KIND_NOT_SET) return;
    ToWorker commands;
    ASSERT_TRUE(commands.ParseFromString(frame.header));
    for (const auto& command : commands.commands()) {
      pings += command.has_ping();
      if (command.has_shutdown()) refused = command.shutdown().reason();
      ::pathways::v1::FromWorker pong;
      pong.set_beside(true);
      pong.add_events()->mutable_pong();
      if (command.has_ping()) connection_->Send(pong.SerializeAsString());
    }
  }
  void OnClosed(const absl::Status&) override { closed = true; }

  TestCluster* const cluster_;
  const std::string name_;
  const uint32_t hosts_;
  const std::string run_;
  std::unique_ptr<net::Connection> connection_;
  std::map<uint64_t, std::string> answers_;
};

class ControllerWorldsTest : public ::testing::Test {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options;
    options.expect_hosts = 1;
    options.host_grace = absl::Seconds(20);
    return options;
  }
  FakeRuntime& Join(const std::string& name, uint32_t hosts = 2, const std::string& run = "a run") {
    runtimes_.push_back(std::make_unique<FakeRuntime>(&cluster_, name, hosts, run));
    runtimes_.back()->Join();
    return *runtimes_.back();
  }

  TestCluster cluster_{0, 0, Options()};
  std::vector<std::unique_ptr<FakeRuntime>> runtimes_;
};

TEST_F(ControllerWorldsTest, AWorldFormsWhenAllHostsAreThereAndNumbersThemByName) {
  FakeRuntime& b = Join("b");
  cluster_.timers.Advance(absl::Seconds(60));
  EXPECT_FALSE(b.closed) << "it is pinged, and waits";
  EXPECT_GT(b.pings, 0);
  EXPECT_EQ(b.formed.world(), "");
  FakeRuntime& a = Join("a");
  EXPECT_EQ(a.formed.node(), 0u);
  EXPECT_EQ(b.formed.node(), 1u);
  EXPECT_EQ(b.formed.nodes(), 2u);
  EXPECT_EQ(a.formed.world(), b.formed.world());
  EXPECT_NE(a.formed.world(), "");
}

TEST_F(ControllerWorldsTest, HostsMustAgreeOnTheirNumber) {
  FakeRuntime& a = Join("a", 3);
  FakeRuntime& b = Join("b", 2);
  EXPECT_THAT(b.refused, HasSubstr("island 'i' has 3 hosts, as host 'a' says, and not 2"));
  EXPECT_TRUE(b.closed);
  EXPECT_THAT(Join("c", 0).refused, HasSubstr("1 to 65536 hosts, not 0"));
  EXPECT_FALSE(a.closed);
}

TEST_F(ControllerWorldsTest, ALaterConnectionOfAWaitingHostReplacesTheEarlierOne) {
  FakeRuntime& before = Join("a");
  FakeRuntime& after = Join("a");
  EXPECT_TRUE(before.closed);
  Join("b");
  EXPECT_EQ(after.formed.node(), 0u);
}

TEST_F(ControllerWorldsTest, TwoWorkersThatWaitUnderOneNameDoNotDriveEachOtherAway) {
  FakeRuntime& first = Join("a");
  FakeRuntime& second = Join("a", 2, "another run");
  EXPECT_THAT(second.refused, HasSubstr("another worker waits as host 'a' of island 'i': give each of them a name of its own"));
  EXPECT_TRUE(second.closed);
  EXPECT_FALSE(first.closed);
  first.Break();
  Join("a", 2, "another run");
  EXPECT_EQ(Join("b").formed.node(), 1u) << "the name is free when the worker has gone";
}

TEST_F(ControllerWorldsTest, LongNamesAreRefused) {
  EXPECT_THAT(Join(std::string(1025, 'a')).refused, HasSubstr("a name of a host or its island has more than 1024 bytes"));
  EXPECT_THAT(Join("a", 2, std::string(1025, 'r')).refused, HasSubstr("more than 1024 bytes"));
}

TEST_F(ControllerWorldsTest, ARequestOutsideOfAWorldIsRefused) {
  FakeRuntime& a = Join("a");
  a.Put(1, "k", "v");
  a.Get(2, "k", absl::Seconds(1));
  EXPECT_EQ(a.Answer(1), "this host is in no world");
  EXPECT_EQ(a.Answer(2), "this host is in no world");
}

TEST_F(ControllerWorldsTest, AWaitEndsAtItsDeadline) {
  FakeRuntime& a = Join("a");
  Join("b");
  a.Get(1, "k", absl::Seconds(3));
  a.Get(2, "k", absl::Seconds(5));
  cluster_.timers.Advance(absl::Seconds(4));
  EXPECT_EQ(a.Answer(1), "host 'a' of island 'i' waits in vain: no host has put a value under the key 'k' in time");
  EXPECT_EQ(a.Answer(2), "");
  a.Put(3, "k", "v");
  EXPECT_EQ(a.Answer(2), "v");
}

TEST_F(ControllerWorldsTest, AnEarlierDeadlineIsNoticedWhileAnotherWaits) {
  FakeRuntime& a = Join("a");
  Join("b");
  a.Get(1, "k", absl::Hours(1));
  a.Get(2, "k", absl::Milliseconds(150));
  a.Get(3, "k", absl::ZeroDuration());
  EXPECT_THAT(a.Answer(3), HasSubstr("in time")) << "at once";
  cluster_.timers.Advance(absl::Milliseconds(149));
  EXPECT_EQ(a.Answer(2), "");
  cluster_.timers.Advance(Worlds::kLatest + absl::Milliseconds(1));
  EXPECT_THAT(a.Answer(2), HasSubstr("in time"));
  EXPECT_EQ(a.Answer(1), "");
}

TEST_F(ControllerWorldsTest, AHostThatAsksOnAndReadsNothingIsEnded) {
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  a.Put(1, "large", std::string(8 << 20, 'x'));
  a.Get(2, "k", absl::Minutes(5));
  b.ComeBackAndReadNothing();
  for (uint64_t i = 0; i < 11'000; ++i) b.Get(i, i < 3 ? "large" : "none", absl::ZeroDuration());
  cluster_.timers.Advance(absl::Seconds(21));
  EXPECT_THAT(a.Answer(2),
              HasSubstr("host 'b' of island 'i' is lost: the device runtime sends requests and does not read the answers"));
}

TEST_F(ControllerWorldsTest, AHostThatComesBackInTimeGoesOn) {
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  const std::string world = a.formed.world();
  b.Put(1, "early", "1");
  a.Get(1, "k", absl::Minutes(5));
  b.Get(2, "of b", absl::Minutes(5));
  b.Break();
  cluster_.timers.Advance(absl::Seconds(15));
  b.ComeBack();
  EXPECT_EQ(b.formed.world(), world);
  EXPECT_EQ(b.formed.node(), 1u);
  cluster_.timers.Advance(absl::Seconds(15));
  EXPECT_EQ(a.Answer(1), "") << "nobody is lost";
  b.Put(3, "k", "v");
  b.Put(4, "of b", "w");
  EXPECT_EQ(a.Answer(1), "v");
  EXPECT_EQ(b.Answer(2), "") << "the connection on which it was asked is gone";
  b.Get(5, "early", absl::ZeroDuration());
  EXPECT_EQ(b.Answer(5), "1");
}

TEST_F(ControllerWorldsTest, AHostThatDoesNotComeBackInTimeIsLostAndAnswersLearnIt) {
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  a.Put(1, "early", "1");
  a.Get(2, "k", absl::Minutes(5));
  b.Break();
  cluster_.timers.Advance(absl::Seconds(21));
  EXPECT_THAT(a.Answer(2), HasSubstr("the key 'k' gets no value any more: host 'b' of island 'i' is lost"));
  a.Get(3, "l", absl::Minutes(5));
  EXPECT_THAT(a.Answer(3), HasSubstr("the key 'l'")) << "at once";
  a.Get(4, "early", absl::Minutes(5));
  EXPECT_EQ(a.Answer(4), "1");
  EXPECT_EQ(a.over, "") << "its own computations go on";
  b.ComeBack();
  EXPECT_THAT(b.over, HasSubstr("does not keep the world of host 'b'"));
}

TEST_F(ControllerWorldsTest, TheNextHostEndsABrokenWorldAndANewOneHasNoKeyOfIt) {
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  const std::string world = a.formed.world();
  a.Put(1, "k", "v");
  b.Break();
  FakeRuntime& again = Join("b");
  EXPECT_THAT(a.over, HasSubstr("has lost a host, and another one has come")) << "without waiting for the one that is away";
  a.Get(2, "k", absl::ZeroDuration());
  EXPECT_EQ(a.Answer(2), "this host is in no world");
  FakeRuntime& anew = Join("a");
  EXPECT_NE(anew.formed.world(), world);
  EXPECT_EQ(anew.formed.world(), again.formed.world());
  again.Get(1, "k", absl::ZeroDuration());
  EXPECT_THAT(again.Answer(1), HasSubstr("no host has put a value under the key 'k'"));
}

TEST_F(ControllerWorldsTest, TheLossOfAHostsMainConnectionCountsWhileItIsAway) {
  FakeWorker& worker = cluster_.Add({.name = "b", .island = "i", .devices = 1});
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  a.Get(1, "k", absl::Minutes(5));
  b.Break();
  EXPECT_EQ(a.Answer(1), "");
  ::pathways::v1::FromWorker goodbye;
  goodbye.add_events()->mutable_goodbye()->set_reason("it ends");
  worker.Send(goodbye);
  cluster_.Run();
  EXPECT_THAT(a.Answer(1), HasSubstr("host 'b' of island 'i' is lost: its worker ended: it ends"));
}

TEST_F(ControllerWorldsTest, AfterTheClustersEndNothingIsAnswered) {
  FakeRuntime& a = Join("a");
  Join("b");
  a.Get(1, "k", absl::Seconds(3));
  cluster_.cluster->Stop("the cluster ends", /*stop_workers=*/true, [] {});
  cluster_.timers.Advance(absl::Seconds(30));
  EXPECT_EQ(a.refused, "the cluster ends");
  EXPECT_EQ(a.Answer(1), "");
}

TEST_F(ControllerWorldsTest, AWorldWithoutHostsIsForgotten) {
  FakeRuntime& a = Join("a");
  FakeRuntime& b = Join("b");
  a.Break();
  b.Break();
  cluster_.timers.Advance(absl::Seconds(21));
  FakeRuntime& c = Join("c");
  FakeRuntime& d = Join("d");
  EXPECT_EQ(c.formed.node(), 0u);
  EXPECT_EQ(d.formed.node(), 1u);
}

}  // namespace
}  // namespace pw::controller
