#include "pathways/net/in_memory/delayed_connection.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "pathways/net/testing.h"

namespace pw::net {
namespace {

class HandTime final : public Clock, public Timers, public Executor {
 public:
  absl::Time Now() override { return now; }
  void After(absl::Duration delay, Executor* executor, Task task) override { waiting.push_back({delay, std::move(task)}); }
  void Post(Task task) override { std::move(task)(); }
  // Runs the i-th waiting timer.
  void Fire(size_t i = 0) {
    Task task = std::move(waiting[i].second);
    waiting.erase(waiting.begin() + static_cast<int64_t>(i));
    std::move(task)();
  }

  absl::Time now = absl::UnixEpoch();
  std::vector<std::pair<absl::Duration, Task>> waiting;
};

// Records the frames that it is given.
class Sink final : public Connection {
 public:
  explicit Sink(std::vector<std::string>* sent) : sent_(sent) {}
  void Start(Handler* handler) override {}
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override { sent_->push_back(std::move(header)); }
  bool CanSendBulk() const override { return true; }
  void Close(absl::Status reason) override { sent_->push_back("closed"); }
  Counters counters() const override { return {}; }
  const std::string& peer() const override { return peer_; }
  PeerProof proof() const override { return PeerProof::kOwn; }

 private:
  std::vector<std::string>* const sent_;
  const std::string peer_ = "sink";
};

class DelayedConnectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<DelayedConnection> Connect() {
    return std::make_unique<DelayedConnection>(std::make_unique<Sink>(&sent), uplink, &time, &time);
  }

  HandTime time;
  std::vector<std::string> sent;
  const std::shared_ptr<Uplink> uplink = std::make_shared<Uplink>(&time, absl::Milliseconds(5), 1000.0);
};

TEST_F(DelayedConnectionTest, AFrameTakesItsSizeOverTheBandwidthAndTheLatency) {
  auto connection = Connect();
  connection->Send("head", {Pattern(96, 1)}, Lane::kBulk);
  ASSERT_EQ(time.waiting.size(), 1u);
  EXPECT_EQ(time.waiting[0].first, absl::Milliseconds(105));
  EXPECT_TRUE(sent.empty());
  time.Fire();
  EXPECT_EQ(sent, std::vector<std::string>{"head"});
}

TEST_F(DelayedConnectionTest, WhatAHostSendsSharesItsLinkWhomeverItIsFor) {
  auto one = Connect(), other = Connect();
  one->Send("0123456789", {}, Lane::kBulk);
  other->Send("0123456789", {}, Lane::kBulk);
  EXPECT_EQ(time.waiting[0].first, absl::Milliseconds(15));
  EXPECT_EQ(time.waiting[1].first, absl::Milliseconds(25));
  time.now += absl::Seconds(1);  // the link has long been free
  one->Send("0123456789", {}, Lane::kBulk);
  EXPECT_EQ(time.waiting[2].first, absl::Milliseconds(15));
}

TEST_F(DelayedConnectionTest, FramesKeepTheirOrderHoweverTheTimersFire) {
  auto connection = Connect();
  for (const char* name : {"a", "b", "c"}) connection->Send(name, {}, Lane::kUrgent);
  time.Fire(2);
  time.Fire(0);
  time.Fire(0);
  EXPECT_EQ(sent, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(DelayedConnectionTest, AfterItsEndNothingIsSent) {
  auto connection = Connect();
  connection->Send("late", {}, Lane::kUrgent);
  connection->Close(absl::CancelledError("enough"));
  connection = nullptr;
  time.Fire();
  EXPECT_EQ(sent, std::vector<std::string>{"closed"});
}

}  // namespace
}  // namespace pw::net
