#include "pathways/controller/cluster/members/heartbeats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::testing::HasSubstr;

TEST(HeartbeatsTest, ASilentHostIsLostAtTheHeartbeatLimit) {
  TestCluster t(2, 1);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(1, {1}), "a").ok());
  ASSERT_TRUE(t.Ready({1}).ok());
  t.timers.Advance(absl::Seconds(30));
  EXPECT_TRUE(t.Ready({1}).ok());
  t.workers[1]->silent = true;
  t.timers.Advance(absl::Seconds(8));
  EXPECT_TRUE(t.Ready({1}).ok());
  t.timers.Advance(absl::Seconds(4));
  const absl::Status status = t.Ready({1});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing heard from it for 10s"));
  EXPECT_FALSE(t.workers[0]->closed);
}

TEST(HeartbeatsTest, AHostThatWaitsForAProcessorIsKeptLonger) {
  bool waits = true;
  ClusterOptions options;
  options.watch_process = [&waits](int64_t pid) {
    EXPECT_EQ(pid, 4242);
    return [&waits](absl::Time) { return waits; };
  };
  TestCluster t(2, 1, options);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(1, {1}), "a").ok());
  ASSERT_TRUE(t.Ready({1}).ok());
  t.workers[1]->silent = true;
  t.timers.Advance(absl::Seconds(50));
  EXPECT_TRUE(t.Ready({1}).ok());
  waits = false;
  t.timers.Advance(absl::Seconds(4));
  EXPECT_EQ(t.Ready({1}).code(), absl::StatusCode::kDataLoss) << "it is silent for another reason now";
}

TEST(HeartbeatsTest, NoHostIsSilentForEver) {
  ClusterOptions options;
  options.watch_process = [](int64_t) { return [](absl::Time) { return true; }; };
  TestCluster t(2, 1, options);
  t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(1, {1}), "a").ok());
  ASSERT_TRUE(t.Ready({1}).ok());
  t.workers[1]->silent = true;
  t.timers.Advance(absl::Seconds(58));
  EXPECT_TRUE(t.Ready({1}).ok());
  t.timers.Advance(absl::Seconds(4));
  EXPECT_EQ(t.Ready({1}).code(), absl::StatusCode::kDataLoss);
}

TEST(HeartbeatsTest, AControllerThatSleptBlamesNobody) {
  TestCluster t(1, 1);
  t.Open();
  t.clock.now += absl::Minutes(5);
  t.timers.Advance(absl::Seconds(3));
  EXPECT_FALSE(t.workers[0]->closed);
}

// A peer that connects and says nothing.
struct Mute : net::Connection::Handler {
  void OnFrame(net::Frame) override { ++frames; }
  void OnClosed(const absl::Status&) override { closed = true; }
  int frames = 0;
  bool closed = false;
};

TEST(HeartbeatsTest, OnlyWorkersThatHaveSaidHelloArePinged) {
  TestCluster t(0, 0, {.expect_hosts = 2});
  FakeWorker& waiting = t.Add({.name = "a", .island = "i", .devices = 1});
  Mute mute;
  std::unique_ptr<net::Connection> connection;
  t.transport.Connect(t.address, absl::Seconds(1), [&](auto connected) { connection = *std::move(connected); });
  t.Run();
  connection->Start(&mute);
  t.timers.Advance(absl::Seconds(5));
  EXPECT_EQ(waiting.frames, 5) << "a ping each tick, while the cluster has not formed";
  EXPECT_EQ(mute.frames, 0);
  EXPECT_FALSE(mute.closed);
  t.timers.Advance(absl::Seconds(7));
  EXPECT_TRUE(mute.closed) << "silent for longer than the limit";
  connection = nullptr;
}

}  // namespace
}  // namespace pw::controller
