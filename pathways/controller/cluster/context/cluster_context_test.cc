#include "pathways/controller/cluster/context/cluster_context.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"

namespace pw::controller {
namespace {

class ClusterContextTest : public ::testing::Test {
 protected:
  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  Strand strand_{&executor_};
  ClusterOptions options_;
  std::shared_ptr<std::string> cluster_ = std::make_shared<std::string>("alive");
  const ClusterContext context_{cluster_, &options_, &clock_, &timers_, &strand_};
};

TEST_F(ClusterContextTest, TasksAndTimersRunOnTheStrandAndNeverInsideTheCall) {
  std::string ran;
  context_.Post([&] { ran += strand_.RunsHere() ? "posted " : "elsewhere "; });
  context_.After(absl::Seconds(2), [&] { ran += strand_.RunsHere() ? "timed " : "elsewhere "; });
  context_.Answer(std::string("answered "), [&](std::string text) { ran += text; });
  EXPECT_EQ(ran, "");
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(ran, "posted answered ");
  timers_.Advance(absl::Seconds(1));
  EXPECT_EQ(ran, "posted answered timed ");
}

TEST_F(ClusterContextTest, TasksThatOutliveTheClusterDoNothing) {
  int ran = 0;
  context_.Post([&] { ++ran; });
  context_.After(absl::Seconds(1), [&] { ++ran; });
  cluster_ = nullptr;
  context_.Post([&] { ++ran; });
  EXPECT_EQ(executor_.size(), 1u) << "nothing is posted for a cluster that is gone: its strand is gone, too";
  timers_.Advance(absl::Seconds(2));
  EXPECT_EQ(ran, 0);
}

TEST_F(ClusterContextTest, TheClusterLivesUntilATaskHasEndedAndItsCapturesAreGone) {
  // Notes at its end whether the cluster was still there.
  struct Witness {
    std::weak_ptr<std::string> cluster;
    std::string* seen;
    ~Witness() { *seen += cluster.expired() ? "gone " : "there "; }
  };
  std::string seen;
  const std::weak_ptr<std::string> weak = cluster_;
  context_.Post([this, weak, &seen, witness = std::make_unique<Witness>(Witness{weak, &seen})] {
    cluster_ = nullptr;  // the last reference of others
    seen += weak.expired() ? "gone " : "there ";
  });
  seen.clear();
  executor_.RunUntilIdle();
  EXPECT_EQ(seen, "there there ");
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace pw::controller
