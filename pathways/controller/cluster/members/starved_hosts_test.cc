#include "pathways/controller/cluster/members/starved_hosts.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;

class StarvedHostsTest : public ::testing::Test {
 protected:
  StarvedHostsTest() {
    options_.heartbeat_limit = absl::Seconds(8);
    options_.watch_process = [this](int64_t pid) {
      watched_.push_back(pid);
      return [this](absl::Time) { return waits_; };
    };
  }
  bool Starved(int silent_seconds) {
    return hosts_.IsStarved(HostId(3), absl::Seconds(silent_seconds), start_ + absl::Seconds(silent_seconds));
  }

  const absl::Time start_ = absl::FromUnixSeconds(1000);
  ClusterOptions options_;
  bool waits_ = true;
  std::vector<int64_t> watched_;
  StarvedHosts hosts_{&options_, [](HostId host) { return 40 + static_cast<int64_t>(host.v); }, [](HostId) { return "a host"; }};
};

TEST_F(StarvedHostsTest, AProcessIsWatchedOnlyWhileItsHostIsSilent) {
  EXPECT_FALSE(Starved(4));
  EXPECT_THAT(watched_, ElementsAre());
  EXPECT_TRUE(Starved(5));
  EXPECT_TRUE(Starved(6));
  EXPECT_THAT(watched_, ElementsAre(43)) << "by one watch";
  EXPECT_FALSE(Starved(0)) << "it was heard";
  EXPECT_TRUE(Starved(5));
  EXPECT_THAT(watched_, ElementsAre(43, 43));
  hosts_.Forget(HostId(3));
  EXPECT_TRUE(Starved(5));
  EXPECT_THAT(watched_, ElementsAre(43, 43, 43));
}

TEST_F(StarvedHostsTest, OneLookThatFindsItRunningIsNotEnough) {
  EXPECT_TRUE(Starved(5));
  waits_ = false;
  EXPECT_TRUE(Starved(6));
  EXPECT_FALSE(Starved(7)) << "a quarter of the limit has passed";
  waits_ = true;
  EXPECT_TRUE(Starved(9));
}

TEST_F(StarvedHostsTest, NoHostIsStarvedForEver) {
  EXPECT_TRUE(Starved(48));
  EXPECT_FALSE(Starved(49));
}

TEST_F(StarvedHostsTest, AProcessThatDoesNotWaitIsSilentForAnotherReason) {
  waits_ = false;
  EXPECT_FALSE(Starved(5));
}

TEST_F(StarvedHostsTest, SilenceAlwaysCountsWhereProcessesAreNotWatched) {
  options_.watch_process = nullptr;
  EXPECT_FALSE(Starved(5));
}

}  // namespace
}  // namespace pw::controller
