#include "pathways/sim/network.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/sim/testing.h"

namespace pw::sim {
namespace {

struct Recorder : net::Connection::Handler {
  void OnFrame(net::Frame frame) override { got.push_back(frame.header); }
  void OnClosed(const absl::Status& reason) override { closed.push_back(reason); }
  void OnBulkWritable() override { ++writable; }
  std::vector<std::string> got;
  std::vector<absl::Status> closed;
  int writable = 0;
};

// Two processes of different islands with a connection between them.
class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    listener_ = *there_transport_->Listen("tcp:there:0", [this](std::unique_ptr<net::Connection> c) {
      accepted = std::move(c);
      accepted->Start(&at_there);
    });
    here_transport_->Connect(listener_->address(), absl::Seconds(1), [this](absl::StatusOr<std::unique_ptr<net::Connection>> c) {
      ASSERT_TRUE(c.ok()) << c.status();
      connected = *std::move(c);
      connected->Start(&at_here);
    });
    Run();
  }
  ~NetworkTest() override {
    here.Kill();
    there.Kill();
  }
  void Run(absl::Duration time = absl::Milliseconds(100)) { world.RunUntil(world.now() + time, Never); }

  World world{1};
  NetworkOptions options;
  Network network{&world, options};
  Process here{&world, "here", "a", absl::Microseconds(1)};
  Process there{&world, "there", "b", absl::Microseconds(1)};
  Recorder at_here, at_there;

 private:
  std::unique_ptr<net::Transport> here_transport_ = network.TransportOf(&here);
  std::unique_ptr<net::Transport> there_transport_ = network.TransportOf(&there);
  std::unique_ptr<net::Listener> listener_;

 protected:
  std::unique_ptr<net::Connection> connected, accepted;
};

TEST_F(NetworkTest, FramesOfALaneArriveInOrderAndTakeTheirTime) {
  for (int i = 0; i < 20; ++i) connected->Send(std::to_string(i));
  Run(absl::Microseconds(20));
  EXPECT_TRUE(at_there.got.empty());
  Run();
  ASSERT_EQ(at_there.got.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(at_there.got[i], std::to_string(i));
}

TEST_F(NetworkTest, UrgentFramesOvertakeBulkOnes) {
  connected->Send("bulk", {Bytes::FromString(std::string(10 << 20, 'x'))}, net::Lane::kBulk);
  connected->Send("urgent");
  Run();
  EXPECT_EQ(at_there.got, (std::vector<std::string>{"urgent", "bulk"}));
}

TEST_F(NetworkTest, BulkFramesWaitForTheLinkAndNotForTheLatencyOfOthers) {
  network.Disturb("here", absl::Milliseconds(10), false, world.now() + absl::Seconds(1));
  for (int i = 0; i < 20; ++i) connected->Send(std::to_string(i), {Bytes::FromString("x")}, net::Lane::kBulk);
  Run(absl::Milliseconds(9));
  EXPECT_TRUE(at_there.got.empty());
  Run(absl::Milliseconds(2));
  EXPECT_EQ(at_there.got.size(), 20u) << "ten milliseconds for all of them, not for each";
}

TEST_F(NetworkTest, ADelayEnds) {
  network.Disturb("there", absl::Milliseconds(10), false, world.now() + absl::Milliseconds(20));
  Run(absl::Milliseconds(20));
  connected->Send("soon");
  Run(absl::Milliseconds(1));
  EXPECT_EQ(at_there.got, std::vector<std::string>{"soon"});
}

TEST_F(NetworkTest, FramesOvertakeEachOtherByChanceButNotInALane) {
  network.Disturb("there", absl::Milliseconds(10), true, world.now() + absl::Seconds(1));
  std::vector<std::string> sent;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(std::to_string(i));
    connected->Send(sent.back(), {Bytes::FromString("x")}, i % 2 == 0 ? net::Lane::kBulk : net::Lane::kUrgent);
    Run(absl::Milliseconds(1));
  }
  Run();
  ASSERT_EQ(at_there.got.size(), sent.size());
  EXPECT_NE(at_there.got, sent) << "the two lanes overtake each other";
  int last[2] = {-1, -1};
  for (const std::string& name : at_there.got) {
    const int number = std::stoi(name);
    EXPECT_GT(number, last[number % 2]);
    last[number % 2] = number;
  }
}

TEST_F(NetworkTest, AFullBulkLaneSaysSoAndWhenItIsNotAnyMore) {
  while (connected->CanSendBulk()) connected->Send("x", {Bytes::FromString(std::string(4 << 20, 'x'))}, net::Lane::kBulk);
  EXPECT_EQ(at_here.writable, 0);
  Run(absl::Seconds(1));
  EXPECT_EQ(at_here.writable, 1);
  EXPECT_TRUE(connected->CanSendBulk());
}

TEST_F(NetworkTest, ClosingIsHeardOnceAtBothEnds) {
  connected->Send("last");
  connected->Close(absl::AbortedError("enough"));
  connected->Send("too late");
  Run();
  EXPECT_EQ(at_there.got, std::vector<std::string>{"last"});
  ASSERT_EQ(at_here.closed.size(), 1u);
  EXPECT_EQ(at_here.closed[0].code(), absl::StatusCode::kAborted);
  ASSERT_EQ(at_there.closed.size(), 1u);
  EXPECT_EQ(at_there.closed[0].code(), absl::StatusCode::kUnavailable);
}

TEST_F(NetworkTest, TheDeathOfAProcessIsHeardThatOfAMachineIsNot) {
  network.Cut(there, /*silently=*/false);
  there.Kill();
  Run();
  EXPECT_EQ(at_here.closed.size(), 1u);
}

TEST_F(NetworkTest, AMachineWithoutPowerIsSilent) {
  network.Cut(there, /*silently=*/true);
  there.Kill();
  connected->Send("hello?");
  Run(absl::Seconds(60));
  EXPECT_TRUE(at_here.closed.empty());
}

TEST_F(NetworkTest, AProcessThatIsCutOffLosesItsConnectionsAndWhatIsUnderWay) {
  connected->Send("lost");
  network.CutOff(here, world.now() + absl::Seconds(1));
  Run();
  EXPECT_EQ(at_here.closed.size(), 1u);
  EXPECT_EQ(at_there.closed.size(), 1u);
  EXPECT_TRUE(at_there.got.empty());
}

TEST_F(NetworkTest, APartitionHoldsEverythingBackUntilItHeals) {
  network.Partition({"there"}, world.now() + absl::Seconds(1));
  connected->Send("patience");
  Run(absl::Milliseconds(900));
  EXPECT_TRUE(at_there.got.empty());
  Run(absl::Milliseconds(200));
  EXPECT_EQ(at_there.got, std::vector<std::string>{"patience"});
}

TEST_F(NetworkTest, PlantedBugsDoWhatTheySay) {
  network.Plant(Bug::kRepeatFrame, 1);
  connected->Send("a");
  Run();
  EXPECT_EQ(at_there.got, (std::vector<std::string>{"a", "a"}));
  network.Plant(Bug::kLoseFrame, 1);
  connected->Send("b");
  Run();
  EXPECT_EQ(at_there.got.size(), 2u);
  network.Plant(Bug::kSwapFrames, 1);
  connected->Send("c");
  connected->Send("d");
  Run();
  EXPECT_EQ(at_there.got, (std::vector<std::string>{"a", "a", "d", "c"}));
  network.Plant(Bug::kHushEnd, 1);
  network.Cut(there, /*silently=*/false);
  there.Kill();
  Run(absl::Seconds(60));
  EXPECT_TRUE(at_here.closed.empty());
}

TEST_F(NetworkTest, BytesBetweenIslandsAreCounted) {
  const uint64_t before = network.totals().bytes_between_islands;
  connected->Send("12345");
  EXPECT_EQ(network.totals().bytes_between_islands - before, 5u);
}

TEST(Network, NobodyListeningIsSaidAfterTheTimeout) {
  World world(1);
  Network network(&world, {});
  Process here(&world, "here", "", absl::Microseconds(1));
  auto transport = network.TransportOf(&here);
  absl::Status status;
  transport->Connect("tcp:nowhere:1", absl::Seconds(1), [&](auto connection) { status = connection.status(); });
  world.RunUntil(world.now() + absl::Milliseconds(900), Never);
  EXPECT_TRUE(status.ok());
  world.RunUntil(world.now() + absl::Milliseconds(200), Never);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace pw::sim
