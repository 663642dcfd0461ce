#include "pathways/controller/housekeeping.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using testing::HasSubstr;
using testing::Not;

TEST(HousekeepingTest, AskingEveryHostIsOneMessageEach) {
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
  for (size_t w = 0; w < t.workers.size(); ++w) EXPECT_EQ(t.workers[w]->Count(Command::kDataflow), before[w] + 1);
}

// Not even until the time is up: the others are asked again as soon as the host is lost.
TEST(HousekeepingTest, AHostThatIsLostMeanwhileHoldsNobodyUp) {
  TestCluster t(3, 1);
  t.workers[1]->silent = true;
  std::string json;
  t.cluster->GetStatus([&](absl::StatusOr<std::string> text) { json = *text; });
  t.Run();
  EXPECT_EQ(json, "");
  t.workers[1]->Die();
  t.Run();
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
