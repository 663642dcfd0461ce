// Frames for calls: one to each host for each turn of the controller, however many calls are dispatched in the turn, and however many
// devices the host has. The number of calls in a turn depends on the machine; here the test sets it.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::Each;

// A chain of calls over all devices of several hosts of one island: each call reads the result of the one before, which the client then
// deletes.
class CallFrames {
 public:
  CallFrames(int hosts, int devices_of_each, ClusterOptions options = {}) : cluster_(0, 0, Expecting(hosts, std::move(options))) {
    const int devices = hosts * devices_of_each;
    for (int h = 0; h < hosts; ++h)
      cluster_.Add({absl::StrCat("w", h), "i0", devices_of_each, "cpu", "1.13.0", 1, absl::StrCat("address of w", h)});
    cluster_.Open();
    auto info = cluster_.Compile(TestCluster::Toy("copy", 1, 1, devices), TestCluster::Devices(0, devices));
    EXPECT_TRUE(info.ok()) << info.status();
    program_ = (*info)->handle;
    EXPECT_TRUE(cluster_.Put(last_, TestCluster::Rows(0, devices, {devices, 4}), std::string(4 * devices, 'x')).ok());
    cluster_.Run();
  }

  void CallOnce() {
    const Handle next = last_ + 1;
    EXPECT_TRUE(cluster_.Execute(program_, {last_}, {next}).ok());
    EXPECT_TRUE(cluster_.session->Destruct({last_}).ok());
    last_ = next;
  }
  // The scheduler uses a default cost until a program has run once. This program takes no time: after that any number of its calls fit.
  void Measure() {
    CallOnce();
    cluster_.Run();
  }
  // Runs `turns` turns of the controller with `calls_of_each` calls each; the hosts answer all calls of a turn before the next one.
  void Call(int turns, int calls_of_each) {
    const std::vector<int> frames = Frames(), executes = Count(Command::kExecute), grants = Count(Command::kGrant);
    for (int turn = 0; turn < turns; ++turn) {
      for (int call = 0; call < calls_of_each; ++call) CallOnce();
      cluster_.Run();
    }
    EXPECT_TRUE(cluster_.Ready({last_}).ok());
    frames_ = Since(frames, Frames());
    executes_ = Since(executes, Count(Command::kExecute));
    grants_ = Since(grants, Count(Command::kGrant));
  }

  // The frames and commands that each host got during the last Call.
  const std::vector<int>& frames() const { return frames_; }
  const std::vector<int>& executes() const { return executes_; }
  const std::vector<int>& grants() const { return grants_; }
  TestCluster& cluster() { return cluster_; }

 private:
  static ClusterOptions Expecting(int hosts, ClusterOptions options) {
    options.expect_hosts = hosts;
    return options;
  }
  std::vector<int> Frames() const {
    std::vector<int> frames;
    for (const auto& worker : cluster_.workers) frames.push_back(worker->frames);
    return frames;
  }
  std::vector<int> Count(Command::KindCase kind) const {
    std::vector<int> counts;
    for (const auto& worker : cluster_.workers) counts.push_back(worker->Count(kind));
    return counts;
  }
  static std::vector<int> Since(const std::vector<int>& before, std::vector<int> now) {
    for (size_t i = 0; i < now.size(); ++i) now[i] -= before[i];
    return now;
  }

  TestCluster cluster_;
  Handle program_ = 0;
  Handle last_ = 1;
  std::vector<int> frames_, executes_, grants_;
};

TEST(CallFramesTest, ACallThatIsGrantedAtOnceIsOneFrameToEachHost) {
  for (int devices : {1, 4}) {
    CallFrames calls(3, devices);
    calls.Measure();
    calls.Call(/*turns=*/10, /*calls_of_each=*/1);
    EXPECT_THAT(calls.executes(), Each(10));
    EXPECT_THAT(calls.grants(), Each(0));
    EXPECT_THAT(calls.frames(), Each(10)) << "with " << devices << " devices; the grant and the release travel with the calls";
  }
}

TEST(CallFramesTest, CallsOfOneTurnShareAFrame) {
  CallFrames calls(64, 1);
  calls.Measure();
  calls.Call(/*turns=*/4, /*calls_of_each=*/100);
  EXPECT_THAT(calls.executes(), Each(400));
  EXPECT_THAT(calls.frames(), Each(4));
}

TEST(CallFramesTest, CallsThatWaitForRoomAreGrantedInOneFrame) {
  ClusterOptions one_at_a_time;
  one_at_a_time.gang.window_gangs = 1;
  one_at_a_time.gang.window_ns = 0;
  CallFrames calls(3, 2, one_at_a_time);
  const auto& workers = calls.cluster().workers;
  for (const auto& worker : workers) worker->hold_done = true;
  for (int call = 0; call < 20; ++call) calls.CallOnce();
  calls.cluster().Run();
  std::vector<int> before;
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->Count(Command::kExecute), 20);
    EXPECT_EQ(worker->Count(Command::kGrant), 0);
    before.push_back(worker->frames);
    worker->hold_done = false;
    worker->ReleaseDone();
  }
  calls.cluster().Run();
  for (size_t h = 0; h < workers.size(); ++h) {
    EXPECT_EQ(workers[h]->Count(Command::kGrant), 1) << "the first has taken no time: there is room for all others";
    EXPECT_EQ(workers[h]->log.back().grant().gangs_size(), 19);
    EXPECT_EQ(workers[h]->frames, before[h] + 1);
  }
}

}  // namespace
}  // namespace pw::controller
