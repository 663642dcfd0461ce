#include "pathways/controller/cluster/members/process_probe.h"

#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw::controller {
namespace {

// A process lives exactly while something listens at its address.
class ProcessProbeTest : public ::testing::Test {
 protected:
  ProcessProbeTest() {
    probe_.set_transport(&transport_);
    process_ = *transport_.Listen("tcp:host:1", [this](std::unique_ptr<net::Connection>) { ++attempts_; });
  }
  void Watch(const std::string& address) {
    probe_.Watch(address, [this] { return wanted_; }, [this] { ++ended_; });
    executor_.RunUntilIdle();
  }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  Strand strand_{&executor_};
  const ClusterOptions options_;
  std::shared_ptr<int> cluster_ = std::make_shared<int>();
  ProcessProbe probe_{ClusterContext(cluster_, &options_, &clock_, &timers_, &strand_)};
  std::unique_ptr<net::Listener> process_;
  bool wanted_ = true;
  int attempts_ = 0;
  int ended_ = 0;
};

TEST_F(ProcessProbeTest, AProcessThatListensIsAskedAgainUntilItEnds) {
  Watch("tcp:host:1");
  EXPECT_EQ(attempts_, 1);
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(attempts_, 6) << "one each 400 ms";
  EXPECT_EQ(ended_, 0);
  process_ = nullptr;
  timers_.Advance(absl::Milliseconds(400));
  EXPECT_EQ(ended_, 1);
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(ended_, 1) << "once";
  EXPECT_EQ(timers_.armed(), 0u);
}

TEST_F(ProcessProbeTest, AnAnswerThatIsNotWantedAnyMoreChangesNothing) {
  Watch("tcp:host:1");
  process_ = nullptr;
  wanted_ = false;
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(ended_, 0);
  EXPECT_EQ(timers_.armed(), 0u);
}

TEST_F(ProcessProbeTest, AHostWithoutAnAddressIsNotWatched) {
  Watch("");
  EXPECT_EQ(timers_.armed(), 0u);
  EXPECT_EQ(ended_, 0);
}

TEST_F(ProcessProbeTest, ItDoesNothingAfterTheClustersEnd) {
  Watch("tcp:host:1");
  process_ = nullptr;
  cluster_ = nullptr;
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(ended_, 0);
}

}  // namespace
}  // namespace pw::controller
