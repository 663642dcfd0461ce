#include "pathways/controller/housekeeping/housekeeping.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using testing::HasSubstr;
using testing::Not;

TEST(HousekeepingTest, AStatusIsTwoQuestionsAndEachIsOneMessageToEveryHost) {
  TestCluster t(3, 2);
  auto ask = [&] {
    std::string json;
    t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
    t.Run();
    return json;
  };
  EXPECT_THAT(ask(), HasSubstr("\"used_bytes\":101"));
  std::vector<int> before;
  for (auto& worker : t.workers) before.push_back(worker->Count(Command::kDataflow));
  EXPECT_THAT(ask(), HasSubstr("\"used_bytes\":101"));
  for (size_t w = 0; w < t.workers.size(); ++w) EXPECT_EQ(t.workers[w]->Count(Command::kDataflow), before[w] + 2);
}

TEST(HousekeepingTest, AllHostsGoByOneConfigurationAlsoThoseThatJoinLater) {
  ClusterOptions options;
  options.host_config.set_checksum(true);
  options.host_config.mutable_coalescing()->set_max_bytes(4096);
  TestCluster t(2, 1, options);
  t.Add({"late", "i9", 1});
  for (auto& worker : t.workers) {
    EXPECT_EQ(worker->configured, 1);
    EXPECT_TRUE(worker->config.checksum());
    EXPECT_EQ(worker->config.coalescing().max_bytes(), 4096u);
  }
}

TEST(HousekeepingTest, ARecordingIsPartOfTheConfiguration) {
  TestCluster t(2, 1);
  std::optional<absl::StatusOr<ClusterTrace>> trace;
  t.cluster->Post([&] { t.cluster->RecordTrace(absl::Seconds(1), 100, [&](auto result) { trace = std::move(result); }); });
  t.Run();
  t.Add({"late", "i9", 1});
  for (auto& worker : t.workers) EXPECT_NE(worker->config.recording().id(), 0u);
  t.workers[0]->Die();
  t.Run();
  t.timers.Advance(absl::Seconds(1));
  ASSERT_TRUE(trace.has_value()) << "nobody waits for the host that is lost";
  EXPECT_THAT((*trace)->silent_hosts, testing::ElementsAre(HasSubstr("'w0'")));
  for (size_t w = 1; w < t.workers.size(); ++w) EXPECT_EQ(t.workers[w]->config.recording().id(), 0u);
}

TEST(HousekeepingTest, HealthIsAskedOnceATickAndAHostThatDoesNotAnswerIsBusy) {
  ClusterOptions options;
  options.heartbeat_limit = absl::Seconds(10);
  TestCluster t(2, 1, options);
  const int before = t.workers[0]->Count(Command::kDataflow);
  t.timers.Advance(absl::Seconds(1));
  EXPECT_EQ(t.workers[0]->Count(Command::kDataflow), before + 2) << "the graph, and its first run";
  t.timers.Advance(absl::Seconds(1));
  EXPECT_EQ(t.workers[0]->Count(Command::kDataflow), before + 3);
  auto status = [&] {
    std::string json;
    t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
    t.Run();
    t.timers.Advance(absl::Seconds(1));  // and until the hosts that do not answer time out
    return json;
  };
  EXPECT_THAT(status(), HasSubstr("\"commands_parked\":7"));
  t.workers[1]->deaf_dataflow = true;
  t.timers.Advance(absl::Seconds(5));
  const std::string json = status();
  EXPECT_THAT(json, HasSubstr("\"state\":\"busy\""));
  EXPECT_THAT(json, HasSubstr("\"state\":\"up\"")) << "the other is well";
}

TEST(HousekeepingTest, CleanUpIsOneMessageForEachHostConcernedAndTurn) {
  TestCluster t(2, 2);
  t.Open();
  const auto both = t.Compile(t.Toy("copy", 1, 1, 1), t.Devices(0, 1));
  const auto other = t.Compile(t.Toy("copy", 1, 1, 1), t.Devices(1, 1));
  ASSERT_TRUE(both.ok() && other.ok());
  auto dataflow = [&](int w) { return t.workers[w]->Count(Command::kDataflow); };
  const int before[] = {dataflow(0), dataflow(1)};
  const uint64_t heard = t.cluster->housekeeping().frames_heard();
  EXPECT_TRUE(t.session->DestructExecutable((*both)->handle).ok());
  EXPECT_TRUE(t.session->DestructExecutable((*other)->handle).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_executables(), 0u);
  EXPECT_EQ(dataflow(0), before[0] + 2) << "the graph, and one run for both";
  EXPECT_EQ(dataflow(1), before[1]) << "does not concern it";
  EXPECT_EQ(t.cluster->housekeeping().frames_heard(), heard) << "nobody answers an order";
}

// Returns how many runs the controller has started on a host.
int StartsTold(const FakeWorker& worker) {
  int starts = 0;
  for (const Command& command : worker.log) {
    ::pathways::v1::dataflow::Frame frame;
    if (command.has_dataflow() && frame.ParseFromString(command.dataflow().header())) starts += frame.starts_size();
  }
  return starts;
}

// Not even until the timeout: the answers of the others stand, and no host is asked again.
TEST(HousekeepingTest, AHostThatIsLostMeanwhileHoldsNobodyUp) {
  TestCluster t(3, 1);
  t.workers[1]->silent = true;
  std::string json;
  t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
  t.Run();
  EXPECT_EQ(json, "");
  const int before = StartsTold(*t.workers[0]);
  EXPECT_GT(before, 0);
  t.workers[1]->Die();
  t.Run();
  EXPECT_EQ(StartsTold(*t.workers[0]), before);
  EXPECT_THAT(json, HasSubstr("\"used_bytes\":100"));
  EXPECT_THAT(json, HasSubstr("\"name\":\"w2\""));
  EXPECT_THAT(json, Not(HasSubstr("\"name\":\"w1\"")));
}

TEST(HousekeepingTest, AHostWhoseFramesMakeNoSenseIsLost) {
  TestCluster t(2, 1);
  ::pathways::v1::FromWorker message;
  message.add_events()->mutable_dataflow()->set_header("\xff\xff nonsense");
  t.workers[1]->Send(message);
  t.Run();
  EXPECT_TRUE(t.workers[1]->closed);
  EXPECT_FALSE(t.workers[0]->closed);
  std::string json;
  t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
  t.Run();
  EXPECT_THAT(json, HasSubstr("\"used_bytes\":100"));
}

}  // namespace
}  // namespace pw::controller
