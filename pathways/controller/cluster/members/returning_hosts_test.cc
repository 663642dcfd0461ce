// Hosts that have outlived a controller: the next one gives them the places that they had, and one that they show to be replaced ends.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kGrace = absl::Seconds(60);

// A controller of a cluster, and the hosts that join it.
class Controllers : public ::testing::Test {
 protected:
  ClusterOptions Options(uint64_t epoch, int expect_hosts = 1) {
    ClusterOptions options;
    options.expect_hosts = expect_hosts;
    options.epoch = epoch;
    options.controller_grace = kGrace;
    options.host_grace = absl::Seconds(30);
    options.on_replaced = [this](const std::string& why) { replaced_.push_back(why); };
    return options;
  }
  // Returns the host as it comes to the next controller.
  static FakeWorker::Options Returning(const FakeWorker& worker, FakeWorker::Options options) {
    options.former.emplace();
    *options.former->mutable_place() = worker.welcome.place();
    options.former->set_arrays(3);
    options.former->set_programs(2);
    options.epoch = worker.welcome.epoch();
    return options;
  }
  static std::vector<int> DevicesOf(const FakeWorker& worker) {
    return {worker.welcome.device_ids().begin(), worker.welcome.device_ids().end()};
  }

  std::vector<std::string> replaced_;  // the reasons
};

TEST_F(Controllers, HostsGetTheirPlacesInWhateverOrderTheyReturn) {
  const FakeWorker::Options c{"c", "j", 1}, a{"a", "i", 2}, b{"b", "i", 2};
  TestCluster before(0, 0, Options(1));
  const FakeWorker &was_c = before.Add(c), &was_a = before.Add(a), &was_b = before.Add(b);
  EXPECT_EQ(was_c.welcome.epoch(), 1u);
  EXPECT_EQ(was_c.welcome.controller_grace_seconds(), 60);
  EXPECT_THAT(DevicesOf(was_c), ElementsAre(0));
  EXPECT_THAT(DevicesOf(was_b), ElementsAre(3, 4));

  TestCluster after(0, 0, Options(2));
  const FakeWorker &is_b = after.Add(Returning(was_b, b)), &is_c = after.Add(Returning(was_c, c)), &fresh = after.Add({"d", "k", 1}),
                   &is_a = after.Add(Returning(was_a, a));
  for (const auto& [was, is] : {std::pair(&was_a, &is_a), std::pair(&was_b, &is_b), std::pair(&was_c, &is_c)}) {
    EXPECT_EQ(is->welcome.place().SerializeAsString(), was->welcome.place().SerializeAsString());
    EXPECT_EQ(DevicesOf(*is), DevicesOf(*was));
    EXPECT_EQ(is->welcome.island(), was->welcome.island());
    EXPECT_EQ(is->welcome.epoch(), 2u);
  }
  EXPECT_THAT(DevicesOf(fresh), ElementsAre(5));
  after.Open();
  EXPECT_TRUE(after.Put(1, after.Single(4, {2}), "ab").ok());
  EXPECT_EQ(*after.Fetch(1), "ab");
  std::string status;
  after.cluster->GetStatus([&](absl::StatusOr<std::string> json) { status = *json; });
  after.Run();
  EXPECT_THAT(status, HasSubstr("'b' of island 'i': it has outlived its controller, keeps 2 programs, and frees its parts of 3 arrays"));
}

TEST_F(Controllers, AClusterThatHasFormedBeforeDoesNotWaitForLostHostsForEver) {
  const FakeWorker::Options a{"a", "i", 2}, b{"b", "i", 2}, c{"c", "i", 2};
  TestCluster before(0, 0, Options(1, 3));
  before.Add(a);
  const FakeWorker &was_b = before.Add(b), &was_c = before.Add(c);

  TestCluster after(0, 0, Options(2, 3));
  const FakeWorker &is_c = after.Add(Returning(was_c, c)), &is_b = after.Add(Returning(was_b, b));
  after.timers.Advance(kGrace - absl::Seconds(2));
  EXPECT_FALSE(after.cluster->formed()) << "a may still come";
  after.timers.Advance(absl::Seconds(4));
  EXPECT_TRUE(after.cluster->formed());
  EXPECT_THAT(DevicesOf(is_b), ElementsAre(2, 3));
  EXPECT_THAT(DevicesOf(is_c), ElementsAre(4, 5));
  EXPECT_THAT(DevicesOf(after.Add(a)), ElementsAre(6, 7)) << "it has started anew, and shows no place";
}

TEST_F(Controllers, AClusterThatHasNotFormedBeforeWaitsForAllItsHosts) {
  TestCluster t(0, 0, Options(1, 2));
  t.Add({"a", "i", 1});
  t.timers.Advance(2 * kGrace);
  EXPECT_FALSE(t.cluster->formed());
}

TEST_F(Controllers, LaunchesGetGreaterNumbersThanThoseThatHostsHaveHad) {
  TestCluster t(0, 0, Options(2));
  t.Add({.name = "a", .island = "i", .devices = 1, .last_launch = 700});
  EXPECT_EQ(t.cluster->fabric().NextId(), 701u);
  t.Add({.name = "b", .island = "i", .devices = 1, .last_launch = 5});
  EXPECT_EQ(t.cluster->fabric().NextId(), 702u);
  const FakeWorker& wrong = t.Add({.name = "c", .island = "i", .devices = 1, .last_launch = UINT64_MAX});
  EXPECT_EQ(wrong.Count(Command::kWelcome), 0);
  EXPECT_EQ(wrong.Count(Command::kShutdown), 1);
}

TEST_F(Controllers, AHostOfALaterControllerIsLeftToItAndEndsThisOne) {
  TestCluster t(0, 0, Options(5));
  t.Add({"a", "i", 1});
  EXPECT_EQ(t.Add({.name = "b", .island = "i", .devices = 1, .epoch = 5}).Count(Command::kWelcome), 1);
  EXPECT_THAT(replaced_, ElementsAre());
  for (int i = 0; i < 2; ++i) {
    const FakeWorker& other = t.Add({.name = "c", .island = "i", .devices = 1, .epoch = 6});
    EXPECT_TRUE(other.closed);
    EXPECT_EQ(other.Count(Command::kWelcome), 0);
    EXPECT_EQ(other.Count(Command::kShutdown), 0) << "the worker goes on trying";
  }
  ASSERT_EQ(replaced_.size(), 1u);
  EXPECT_THAT(replaced_[0], HasSubstr("another controller has taken the place of this one"));
  EXPECT_THAT(replaced_[0], HasSubstr("epoch 6, later than 5"));
}

TEST_F(Controllers, AHostThatResumesMayShowThatToo) {
  TestCluster t(0, 0, Options(5));
  FakeWorker& a = t.Add({"a", "i", 1});
  a.Break();
  t.Run();
  a.welcome.set_epoch(6);
  a.ComeBack(&t.transport, t.address);
  t.Run();
  EXPECT_TRUE(a.closed);
  EXPECT_EQ(a.resumed, 0);
  EXPECT_EQ(a.given_up, "");
  EXPECT_EQ(replaced_.size(), 1u);
}

TEST_F(Controllers, TheFolderOfTheClusterMayShowThatToo) {
  uint64_t last = 5;
  ClusterOptions options = Options(5);
  options.last_epoch = [&last] { return last; };
  TestCluster t(0, 0, options);
  t.timers.Advance(absl::Seconds(5));
  EXPECT_THAT(replaced_, ElementsAre());
  last = 8;
  t.timers.Advance(absl::Seconds(5));
  EXPECT_THAT(replaced_, ElementsAre(HasSubstr("the cluster's folder shows epoch 8, later than 5")));
}

TEST_F(Controllers, AWorkerThatIsNotKeptLearnsByWhichController) {
  TestCluster t(0, 0, Options(5));
  FakeWorker& a = t.Add({"a", "i", 1});
  a.Break();
  a.welcome.set_key("another key");
  a.ComeBack(&t.transport, t.address);
  t.Run();
  EXPECT_THAT(a.given_up, HasSubstr("keeps no host"));
  EXPECT_EQ(a.given_up_by, a.welcome.incarnation());
  EXPECT_NE(a.given_up_by, 0u);
}

}  // namespace
}  // namespace pw::controller
