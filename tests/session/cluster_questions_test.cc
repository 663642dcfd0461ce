// Tests client::RemoteCluster, by which a front end uses a controller in another process: its sessions, and its requests about
// the cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pathways/client/remote_cluster.h"
#include "tests/session/served_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using ::testing::HasSubstr;
using ::testing::Not;

// Adds a RemoteCluster, beside the session of the base class.
class Door : public ServedCluster {
 public:
  explicit Door(int hosts = 1, int devices = 4)
      : ServedCluster(hosts, devices), door({.controller = service_address}, {&cut, &client_strand, &timers, &clock}) {}

  absl::StatusOr<std::shared_ptr<Session>> OpenSession(NewSession wanted) {
    return Await<std::shared_ptr<Session>>([&](auto done) { door.OpenSession(std::move(wanted), std::move(done)); });
  }
  std::string Status() {
    return *Await<std::string>([&](auto done) { door.GetStatus(std::move(done)); });
  }
  absl::StatusOr<SliceState> AddSlice(int64_t count) {
    resource::SliceRequest request;
    request.count = count;
    return Await<SliceState>([&](auto done) { door.AddSlice(session->id(), request, std::move(done)); });
  }

  client::RemoteCluster door;
};

TEST(ClusterQuestionsTest, ASessionIsOpenedWithItsShareAndWorks) {
  Door t;
  auto opened = t.OpenSession({.description = "a program", .share = {.weight = 3, .priority = 7}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  t.session = *std::move(opened);
  EXPECT_EQ(t.door.info()->devices.size(), 4);
  EXPECT_FALSE(t.door.Spares(t.session->id())->devices.empty());
  EXPECT_EQ(t.cluster->fabric().gangs().ClientOf(t.session->id()).share, (gang::Share{.weight = 3, .priority = 7}));
  ASSERT_TRUE(t.Put(1, TestCluster::Single(0, {4}), "abcd").ok());
  EXPECT_EQ(*t.FetchRows(1), "abcd");
}

TEST(ClusterQuestionsTest, OperatorsSeeOnWhichMachineAClientIs) {
  Door t;
  client::RemoteCluster door({.controller = t.service_address, .machine = "laptop"},
                             {&t.cut, &t.client_strand, &t.timers, &t.clock});
  auto opened =
      t.Await<std::shared_ptr<Session>>([&](auto done) { door.OpenSession({.description = "a program"}, std::move(done)); });
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(t.Status(), HasSubstr("a program on laptop"));
}

TEST(ClusterQuestionsTest, AShareThatThereCannotBeOpensNothing) {
  Door t;
  EXPECT_EQ(t.OpenSession({.description = "greedy", .share = {.weight = -1}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(t.service->num_sessions(), 0);
}

TEST(ClusterQuestionsTest, WhoAsksIsNoClient) {
  Door t;
  t.session = *t.OpenSession({.description = "a program"});
  const std::string status = t.Status();
  EXPECT_THAT(status, HasSubstr("a program"));
  EXPECT_THAT(status, Not(HasSubstr("question")));
  EXPECT_EQ(t.service->num_sessions(), 1) << "the session of the question has ended";
}

TEST(ClusterQuestionsTest, SharesOfAnybodyAreChanged) {
  Door t;
  t.session = *t.OpenSession({.description = "a program"});
  const SessionId id = t.session->id();
  auto change = [&](SessionId of) {
    return t.Await<gang::Share>([&](auto done) { t.door.ChangeShare(of, {.weight = 2}, std::move(done)); });
  };
  EXPECT_EQ(*change(id), (gang::Share{.weight = 2}));
  const absl::Status unknown = change(SessionId(999)).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), testing::EndsWith(absl::StrCat("that are connected: ", id.v)));
}

TEST(ClusterQuestionsTest, SlicesAreAddedAwaitedAndReleased) {
  Door t(1, 2);
  t.session = *t.OpenSession({.description = "a program"});
  const SliceState slice = *t.AddSlice(2);
  ASSERT_EQ(slice.what, SliceState::What::kPlaced) << slice.text;
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(slice.devices[0].v, 2, {4}), "abcd").ok());
  EXPECT_EQ(*t.FetchRows(1), "abcd");
  auto awaited =
      t.Await<SliceState>([&](auto done) { t.door.AwaitSlice(t.session->id(), slice.slice, absl::Seconds(1), std::move(done)); });
  EXPECT_EQ(awaited->devices, slice.devices);
  auto release = [&] {
    return t.AwaitStatus([&](auto done) { t.door.ReleaseSlice(t.session->id(), slice.slice, std::move(done)); });
  };
  EXPECT_TRUE(release().ok());
  EXPECT_EQ(release().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(t.AddSlice(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClusterQuestionsTest, AClientIsSuspendedAndResumedBySomebodyElse) {
  Door t(1, 2);
  t.session = *t.OpenSession({.description = "a program"});
  const SliceState slice = *t.AddSlice(1);
  ASSERT_TRUE(t.Put(1, TestCluster::Single(slice.devices[0].v, {4}), "abcd").ok());
  ASSERT_TRUE(t.Ready({1}).ok());
  auto suspend = [&](bool resume) {
    return t.Await<SuspendReport>([&](auto done) { t.door.SuspendClient(t.session->id(), resume, std::move(done)); });
  };
  auto report = suspend(false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->arrays, 1);
  EXPECT_EQ(suspend(false).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(suspend(true).ok());
  EXPECT_EQ(*t.FetchRows(1), "abcd");
}

TEST(ClusterQuestionsTest, ASuspendedSessionSendsAWindowOfRequestsAndTheOthersLater) {
  Door t;
  t.session = *t.OpenSession({.description = "a program"});
  client::Link& link = std::static_pointer_cast<client::RemoteSession>(t.session)->link();
  const SliceState slice = *t.AddSlice(1);
  auto suspend = [&](bool resume) {
    return t.Await<SuspendReport>([&](auto done) { t.door.SuspendClient(t.session->id(), resume, std::move(done)); });
  };
  ASSERT_TRUE(suspend(false).ok());
  constexpr size_t kBytes = 64 << 10;
  constexpr Handle kArrays = 3 * kRequestWindowBytes / kBytes;
  const uint64_t before = link.bytes_sent();
  for (Handle array = 1; array <= kArrays; ++array)
    ASSERT_TRUE(
        t.Put(array, TestCluster::Single(slice.devices[0].v, {kBytes}), std::string(kBytes, static_cast<char>('a' + array % 26)))
            .ok());
  t.Run();
  EXPECT_GT(link.bytes_sent() - before, kRequestWindowBytes);
  EXPECT_LT(link.bytes_sent() - before, kRequestWindowBytes + 2 * kFrameBytes);
  ASSERT_TRUE(suspend(true).ok());
  for (Handle array = 1; array <= kArrays; ++array) EXPECT_EQ((*t.FetchRows(array))[7], 'a' + array % 26) << array;
  EXPECT_LT(link.kept_bytes(), kFrameBytes) << "the controller has acknowledged them";
}

TEST(ClusterQuestionsTest, AHostThatThereIsNotCannotBeDrained) {
  Door t;
  auto drained = t.Await<DrainReport>([&](auto done) { t.door.DrainHost("nobody", false, std::move(done)); });
  EXPECT_EQ(drained.status().code(), absl::StatusCode::kNotFound);
  auto found = t.Await<DrainReport>([&](auto done) { t.door.DrainHost("w0", false, std::move(done)); });
  EXPECT_TRUE(found.ok()) << found.status();
}

TEST(ClusterQuestionsTest, AClusterWithoutHostsSaysSo) {
  Door t;
  for (auto& worker : t.workers) worker->Die();
  t.Run();
  client::RemoteCluster door({.controller = t.service_address, .retry = false}, {&t.cut, &t.client_strand, &t.timers, &t.clock});
  auto opened = t.Await<std::shared_ptr<Session>>([&](auto done) { door.OpenSession({.description = "late"}, std::move(done)); });
  const absl::Status status = opened.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("lost all its hosts"));
}

TEST(ClusterQuestionsTest, AnOperatorIsAnsweredAllTheSame) {
  Door t;
  for (auto& worker : t.workers) worker->Die();
  t.Run();
  auto report = t.Await<std::string>([&](auto done) { t.door.GetStatus(std::move(done)); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(*report, HasSubstr("\"joined_hosts\":0"));
}

TEST(ClusterQuestionsTest, WhatListensAndIsNoControllerIsNamed) {
  ServedCluster t;
  const auto listener = t.transport.Listen("tcp:other:0", [](std::unique_ptr<net::Connection>) {});  // closes what it accepts
  ASSERT_TRUE(listener.ok()) << listener.status();
  client::RemoteCluster door({.controller = (*listener)->address(), .retry = false},
                             {&t.cut, &t.client_strand, &t.timers, &t.clock});
  auto report = t.Await<std::string>([&](auto done) { door.GetStatus(std::move(done)); });
  EXPECT_EQ(report.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("tcp:other:"));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("is it a controller?"));
}

TEST(ClusterQuestionsTest, ATraceOfNoTimeOrOfDaysIsRefused) {
  Door t;
  for (absl::Duration duration : {absl::ZeroDuration(), absl::Hours(48)}) {
    auto trace = t.Await<ClusterTrace>([&](auto done) { t.door.RecordTrace(duration, 0, std::move(done)); });
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ClusterQuestionsTest, AnUnknownSessionIsAnswered) {
  Door t;
  auto state =
      t.Await<SliceState>([&](auto done) { t.door.AwaitSlice(SessionId(5), SliceId(1), absl::Seconds(1), std::move(done)); });
  EXPECT_EQ(state.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace pw::session
