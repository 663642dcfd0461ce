// Tests remote sessions: the client library with a real controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/session/wire.h"
#include "tests/session/served_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RemoteSessionTest, AnArrayGoesToTheDevicesAndComesBack) {
  ServedCluster t(2, 2);
  ASSERT_TRUE(t.Connect().ok());
  EXPECT_EQ(t.remote->welcome().cluster->devices.size(), 4);
  ASSERT_TRUE(t.Put(7, TestCluster::Rows(0, 4, {4, 2}), "aabbccdd").ok());
  EXPECT_TRUE(t.Ready({7}).ok());
  EXPECT_EQ(*t.FetchRows(7), "aabbccdd");
  EXPECT_EQ(t.remote->Spec(7)->dims, buffers::Dims({4, 2}));
}

TEST(RemoteSessionTest, AProgramRunsAndItsResultsAreNamedByTheClient) {
  ServedCluster t(1, 2);
  ASSERT_TRUE(t.Connect().ok());
  auto info = t.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ((*info)->name, "copy");
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
  auto reply = t.Execute((*info)->handle, {1}, {2});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->results, ElementsAre(2));
  EXPECT_EQ(*t.FetchRows(2), "abcdefgh");
  EXPECT_TRUE(t.session->DestructExecutable((*info)->handle).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_executables(), 0);
}

TEST(RemoteSessionTest, AProgramIsSentOnceForAllClients) {
  ServedCluster t;
  ::pathways::v1::Compiled toy = TestCluster::Toy("copy", 1, 1, 1);
  toy.set_fingerprint(std::string(kLeastStoredProgramBytes, 'f'));
  const auto sent = [&t](const ::pathways::v1::Compiled& program) {
    const uint64_t before = t.remote->link().bytes_sent();
    const auto info = t.Compile(program, TestCluster::Devices(0, 1));
    EXPECT_TRUE(info.ok()) << info.status();
    EXPECT_EQ((*info)->fingerprint, program.fingerprint());
    EXPECT_TRUE(t.Put(1, TestCluster::Rows(0, 1, {1, 4}), "abcd").ok());
    EXPECT_TRUE(t.Execute((*info)->handle, {1}, {2}).ok());
    EXPECT_EQ(*t.FetchRows(2), "abcd");
    EXPECT_TRUE(t.session->Destruct({1, 2}).ok());
    return t.remote->link().bytes_sent() - before;
  };
  ASSERT_TRUE(t.Connect().ok());
  EXPECT_GT(sent(toy), kLeastStoredProgramBytes);
  EXPECT_LT(sent(toy), 1000);
  ASSERT_TRUE(t.Connect().ok());
  EXPECT_LT(sent(toy), 1000) << "another client";
  toy.set_fingerprint(std::string(kLeastStoredProgramBytes, 'g'));
  EXPECT_GT(sent(toy), kLeastStoredProgramBytes) << "another program";
}

TEST(RemoteSessionTest, AnErrorIsAValue) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  auto info = t.Compile(TestCluster::Toy("fail", 1, 1, 1), TestCluster::Devices(0, 1));
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 1, {1, 4}), "abcd").ok());
  ASSERT_TRUE(t.Execute((*info)->handle, {1}, {2}).ok());
  EXPECT_THAT(t.Ready({2}).message(), HasSubstr("toy failure"));
  EXPECT_THAT(t.Fetch(2).status().message(), HasSubstr("toy failure"));
  EXPECT_TRUE(t.Ready({1}).ok()) << "nothing else is affected";
  EXPECT_EQ(t.Compile(TestCluster::Toy("refuse", 1, 1, 1), TestCluster::Devices(0, 1)).status().message(), "toy refusal");
}

TEST(RemoteSessionTest, WhatTheControllerRefusesIsHeldByTheResults) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  EXPECT_TRUE(t.session->Copy({2}, {1}, TestCluster::Devices(77, 1), std::nullopt, CopySemantics::kAlwaysCopy).ok());
  EXPECT_THAT(t.Ready({2}).message(), HasSubstr("77"));
}

TEST(RemoteSessionTest, RequestsOfOneTurnShareAFrame) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  auto info = t.Compile(TestCluster::Toy("copy", 1, 1, 1), TestCluster::Devices(0, 1));
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 1, {1, 4}), "abcd").ok());
  t.Run();
  const uint64_t before = t.remote->link().frames_sent();
  const int frames = t.workers[0]->frames;
  for (Handle h = 1; h <= 10; ++h) ASSERT_TRUE(t.Execute((*info)->handle, {h}, {h + 1}).ok());
  t.Run();
  EXPECT_EQ(t.remote->link().frames_sent() - before, 1) << "from the client to the controller";
  EXPECT_EQ(t.workers[0]->frames - frames, 1) << "from the controller to the host";
  EXPECT_EQ(*t.FetchRows(11), "abcd");
}

TEST(RemoteSessionTest, AGoodbyeFreesAllThatTheSessionOwned) {
  ServedCluster t;
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  EXPECT_EQ(t.Shards(), 1);
  t.session = nullptr;
  t.remote = nullptr;
  EXPECT_EQ(t.Shards(), 0);
  EXPECT_EQ(t.service->num_sessions(), 0);
  EXPECT_EQ(t.service->num_links(), 0);
}

TEST(RemoteSessionTest, ASessionWaitsForItsClientForTheGraceTimeOnly) {
  ServedCluster t(1, 4, absl::Minutes(10));
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  t.Run();
  t.cut.out_of_reach = true;
  ASSERT_TRUE(t.cut.Cut());
  t.Run();
  t.timers.Advance(absl::Minutes(9));
  EXPECT_EQ(t.service->num_sessions(), 1);
  EXPECT_THAT(*t.Await<std::string>([&](auto done) { t.cluster->GetStatus(std::move(done)); }),
              HasSubstr("\"seconds_away\":540"));
  t.timers.Advance(absl::Minutes(1) + absl::Seconds(2));
  EXPECT_EQ(t.service->num_sessions(), 0);
  EXPECT_EQ(t.Shards(), 0);
}

TEST(RemoteSessionTest, AClientThatIsBackIsNotAwayAnyMoreAndHasItsArrays) {
  ServedCluster t(1, 4, absl::Minutes(10));
  ASSERT_TRUE(t.Connect().ok());
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  t.Run();
  t.cut.out_of_reach = true;
  ASSERT_TRUE(t.cut.Cut());
  t.Run();
  t.timers.Advance(absl::Minutes(9));
  t.cut.out_of_reach = false;
  t.timers.Advance(absl::Seconds(1));
  const std::string status = *t.Await<std::string>([&](auto done) { t.cluster->GetStatus(std::move(done)); });
  EXPECT_THAT(status, ::testing::Not(HasSubstr("seconds_away")));
  EXPECT_THAT(status, HasSubstr("client 1, away for 9m"));
  t.timers.Advance(absl::Minutes(20));  // the old absence does not count
  EXPECT_EQ(*t.Fetch(1), "abcd");
}

TEST(RemoteSessionTest, AClientGivesUpOnAControllerThatIsOutOfReachForLong) {
  ServedCluster t(1, 4, absl::Seconds(5));
  ASSERT_TRUE(t.Connect().ok());
  auto info = t.Compile(TestCluster::Toy("copy", 1, 1, 1), TestCluster::Devices(0, 1));
  t.cut.out_of_reach = true;
  ASSERT_TRUE(t.cut.Cut());
  std::optional<absl::Status> ready;
  t.session->WhenReady({1}, [&](absl::Status status) { ready = std::move(status); });
  t.timers.Advance(absl::Seconds(4) + client::Link::kAnswerTime);
  EXPECT_FALSE(ready.has_value());
  t.timers.Advance(absl::Seconds(2));
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ready->message(), HasSubstr("was lost"));
  // Later requests fail, and their results are known handles: a front door destructs them.
  EXPECT_EQ(t.Execute((*info)->handle, {1}, {2}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(t.Execute(99, {1}, {3}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(t.session->Destruct({2, 3}).ok());
}

TEST(RemoteSessionTest, AClientIsHeldBackWhileTheControllerHasManyOfItsRequestsToTake) {
  for (const bool comes_back : {true, false}) {
    ServedCluster t(1, 4, absl::Seconds(30));
    ASSERT_TRUE(t.Connect().ok());
    t.cut.out_of_reach = true;
    ASSERT_TRUE(t.cut.Cut());
    int sent = 0;
    for (; !t.session->suspended(); ++sent) {
      ASSERT_LT(sent, 100);
      ASSERT_TRUE(
          t.session->MakeErrorArray(1000 + sent, TestCluster::Single(0, {4}), absl::InternalError(std::string(1 << 20, 'x')))
              .ok());
    }
    EXPECT_GE(sent, 60);
    bool resumed = false;
    t.session->WhenResumed([&] { resumed = true; });
    t.Run();
    EXPECT_FALSE(resumed);
    t.cut.out_of_reach = !comes_back;
    t.timers.Advance(absl::Seconds(40));
    EXPECT_TRUE(resumed);
    EXPECT_FALSE(t.session->suspended());
    EXPECT_EQ(t.Ready({1000}).code(), comes_back ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable);
  }
}

TEST(WireTest, ARemapPlanComesBackAsItWent) {
  buffers::RemapPlan plan;
  plan.mappings.push_back({0, 1, {{0, 2, 1}}, {{1, 5, 2}}});
  plan.by_device.push_back({1, 0, {DeviceId(3), DeviceId(5)}});
  google::protobuf::RepeatedPtrField<::pathways::v1::RemapStep> proto;
  ToProto(plan, &proto);
  const buffers::RemapPlan back = PlanFrom(proto);
  ASSERT_EQ(back.mappings.size(), 1);
  EXPECT_EQ(back.mappings[0].out_array, 1);
  EXPECT_EQ(back.mappings[0].from[0].end, 2);
  EXPECT_EQ(back.mappings[0].to[0].step, 2);
  ASSERT_EQ(back.by_device.size(), 1);
  EXPECT_EQ(back.by_device[0].in_array, 1);
  EXPECT_THAT(back.by_device[0].devices, ElementsAre(DeviceId(3), DeviceId(5)));
}

}  // namespace
}  // namespace pw::session
