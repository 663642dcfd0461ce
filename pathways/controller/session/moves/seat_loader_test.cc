// Hosts that take the seat of a lost one, while sessions are open.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using testing::HasSubstr;

// Two hosts of two devices each, and a session; the second host is w1, with the devices 2 and 3.
class SeatsTest : public testing::Test {
 protected:
  SeatsTest() { t.Open(); }

  void Lose() {
    t.workers.back()->Die();
    t.Run();
  }
  FakeWorker& Return(const std::string& name = "w1") { return t.Add({name, "i1", 2}); }
  std::shared_ptr<const ExecutableInfo> Copy(int first_device) {
    return *t.Compile(t.Toy("copy", 1, 1, 2), t.Devices(first_device, 2));
  }
  // Runs the program on new data.
  absl::Status Run(const ExecutableInfo& program, const std::string& text = "aaaabbbb") {
    const Handle array = next_++, result = next_++;
    if (absl::Status put = t.Put(array, t.Rows(program.devices[0].v, 2, {2, 4}), text); !put.ok()) return put;
    if (auto reply = t.Execute(program.handle, {array}, {result}); !reply.ok()) return reply.status();
    const absl::StatusOr<std::string> rows = t.FetchRows(result);
    if (rows.ok() && *rows != text) return absl::InternalError(*rows);
    return rows.status();
  }

  TestCluster t{2, 2};
  Handle next_ = 1;
};

TEST_F(SeatsTest, TheProgramsOfASessionRunOnTheHostThatTookTheSeat) {
  const auto there = Copy(2), elsewhere = Copy(0);
  ASSERT_TRUE(Run(*there).ok());
  ASSERT_TRUE(t.Put(100, t.Rows(2, 2, {2, 4}), "oldoldol").ok());
  Lose();
  EXPECT_EQ(Run(*there).code(), absl::StatusCode::kDataLoss);
  FakeWorker& again = Return("another");
  EXPECT_EQ(again.num_executables(), 1u);
  EXPECT_EQ(t.workers[0]->Count(Command::kCompile), 1) << "what has not moved is not compiled again";
  const uint64_t grants = t.cluster->fabric().gangs().scheduler().grants();
  EXPECT_TRUE(Run(*there).ok());
  EXPECT_EQ(t.cluster->fabric().gangs().scheduler().grants(), grants + 1) << "the island's scheduler orders it again";
  EXPECT_TRUE(Run(*elsewhere).ok());
  const absl::Status lost = t.Ready({100});
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss) << "arrays stay lost";
  EXPECT_THAT(lost.message(), HasSubstr("host 'w1' of island 'i1' is gone since "));
  EXPECT_EQ(t.session->Spec(100)->sharding.devices(), t.Devices(2, 2));
}

TEST_F(SeatsTest, UntilItsProgramsAreLoadedTheDevicesStayLostForASession) {
  const auto program = Copy(2);
  Lose();
  const std::shared_ptr<Session> first = t.session;
  FakeWorker& again = *t.workers.emplace_back(std::make_unique<FakeWorker>(FakeWorker::Options{"w1", "i1", 2}, &t.hub));
  again.hold_compiled = true;
  again.Join(&t.transport, t.address);
  t.Run();
  const absl::Status loading = Run(*program);
  EXPECT_EQ(loading.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(loading.message(),
              HasSubstr("host 'w1' of island 'i1' has joined with devices 2,3: your programs are being loaded there"));
  t.Open();  // another session has nothing to load
  EXPECT_TRUE(t.Put(1, t.Single(2, {1}), "x").ok());
  EXPECT_EQ(*t.Fetch(1), "x");
  t.session = first;
  again.ReleaseCompiled();
  t.Run();
  EXPECT_TRUE(Run(*program).ok());
}

TEST_F(SeatsTest, AHostThatIsLostWhileProgramsAreLoadedLeavesTheSeatToTheNext) {
  const auto program = Copy(2);
  Lose();
  FakeWorker& again = *t.workers.emplace_back(std::make_unique<FakeWorker>(FakeWorker::Options{"b", "i1", 2}, &t.hub));
  again.hold_compiled = true;
  again.Join(&t.transport, t.address);
  t.Run();
  Lose();
  EXPECT_THAT(Run(*program).message(), HasSubstr("host 'b' of island"));
  Return("c");
  EXPECT_TRUE(Run(*program).ok());
}

TEST_F(SeatsTest, AProgramForAnEmptySeatIsCompiledOnAStandInAndRunsWhenSomebodyTakesTheSeat) {
  Lose();
  const absl::StatusOr<std::shared_ptr<const ExecutableInfo>> program = t.Compile(t.Toy("copy", 1, 1, 2), t.Devices(2, 2));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ((*program)->devices, t.Devices(2, 2));
  t.Run();
  EXPECT_EQ(t.workers[0]->num_executables(), 0u) << "the stand-in does not keep it";
  const absl::Status status = t.Execute((*program)->handle, {}, {}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Run(**program).code(), absl::StatusCode::kDataLoss);
  Return();
  EXPECT_TRUE(Run(**program).ok());
}

TEST_F(SeatsTest, WithoutAStandInTheHostsThatAreThereCompileTheirParts) {
  TestCluster pair(0, 0, {.expect_hosts = 2});
  FakeWorker& here = pair.Add({.name = "a", .island = "i", .devices = 1, .process_address = "17 a"});
  FakeWorker& lost = pair.Add({.name = "b", .island = "i", .devices = 1, .process_address = "18 b"});
  pair.Open();
  lost.Die();
  pair.Run();
  const absl::StatusOr<std::shared_ptr<const ExecutableInfo>> program =
      pair.Compile(pair.Toy("copy", 1, 1, 2), pair.Devices(0, 2));
  ASSERT_TRUE(program.ok()) << program.status();
  pair.Run();
  EXPECT_EQ(here.num_executables(), 0u) << "a part alone is of no use";
  EXPECT_EQ(pair.Put(1, pair.Rows(0, 2, {2, 4}), "aaaabbbb").code(), absl::StatusCode::kDataLoss);
  FakeWorker& again = pair.Add({.name = "b", .island = "i", .devices = 1, .process_address = "19 b"});
  ASSERT_TRUE(pair.Put(2, pair.Rows(0, 2, {2, 4}), "aaaabbbb").ok());
  ASSERT_TRUE(pair.Execute((*program)->handle, {2}, {3}).ok());
  EXPECT_EQ(*pair.FetchRows(3), "aaaabbbb");
  EXPECT_EQ(here.num_executables(), 1u);
  EXPECT_EQ(again.num_executables(), 1u);
}

TEST_F(SeatsTest, WithoutAnyHostTheErrorNamesTheLostOne) {
  TestCluster different(0, 0, {.expect_hosts = 2});
  different.Add({.name = "a", .island = "i", .devices = 1});
  FakeWorker& lost = different.Add({.name = "b", .island = "j", .devices = 2});
  different.Open();
  lost.Die();
  different.Run();
  const absl::Status status = different.Compile(different.Toy("copy", 1, 1, 2), different.Devices(1, 2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("'b'"));
}

TEST_F(SeatsTest, AProgramThatTheNewHostRefusesFailsAloneWithItsReason) {
  const auto program = Copy(2);
  auto newer = t.Toy("copy", 1, 1, 2);
  newer.set_newer_than_runtime(true);
  t.workers[1]->reads_newer = true;
  const auto refused = *t.Compile(newer, t.Devices(2, 2));
  Lose();
  Return();
  EXPECT_TRUE(Run(*program).ok());
  const absl::Status status = Run(*refused);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(absl::IsDataLoss(status)) << status;
}

// A collective's other hosts often notice the loss before the controller.
TEST_F(SeatsTest, WhatAnotherHostReportsOfALostOneIsToldAsTheLoss) {
  const auto program = Copy(0);
  FakeWorker& reporter = *t.workers[0];
  reporter.hold_done = true;
  ASSERT_TRUE(t.Put(100, t.Rows(0, 2, {2, 4}), "aaaabbbb").ok());
  ASSERT_TRUE(t.Execute(program->handle, {100}, {101}).ok());
  t.Run();
  std::optional<absl::Status> ready;
  t.session->WhenReady({101}, [&](absl::Status status) { ready = std::move(status); });
  ASSERT_TRUE(reporter.log.back().has_execute());
  ::pathways::v1::FromWorker report;
  auto& failed = *report.add_events()->mutable_done()->add_failed();
  failed.set_op(reporter.log.back().execute().op());
  failed.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  failed.mutable_status()->set_message("process 17 of the computation is gone: its connection has ended");
  failed.mutable_status()->set_unreachable_host(1);
  reporter.Send(report);
  t.Run();
  EXPECT_FALSE(ready.has_value()) << "the controller does not know yet why";
  Lose();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ready->message()), testing::StartsWith("host 'w1' of island 'i1' is gone since "));
}

TEST_F(SeatsTest, ASessionThatOpensWhileASeatIsEmptyUsesTheHostThatTakesIt) {
  Lose();
  t.Open();
  const auto program = Copy(2);
  EXPECT_EQ(Run(*program).code(), absl::StatusCode::kDataLoss);
  Return();
  EXPECT_TRUE(Run(*program).ok());
}

// Every session, each with its own programs; the host is lost and replaced many times.
TEST_F(SeatsTest, TheSeatIsTakenAgainAndAgainByAllSessions) {
  std::vector<std::shared_ptr<Session>> sessions = {t.session};
  std::vector<std::shared_ptr<const ExecutableInfo>> programs = {Copy(2)};
  for (int i = 0; i < 3; ++i) {
    t.Open();
    sessions.push_back(t.session);
    programs.push_back(Copy(2));
  }
  for (int life = 0; life < 5; ++life) {
    Lose();
    Return(absl::StrCat("life", life));
    for (size_t i = 0; i < sessions.size(); ++i) {
      t.session = sessions[i];
      EXPECT_TRUE(Run(*programs[i]).ok()) << life << " " << i;
    }
    EXPECT_EQ(t.workers.back()->num_executables(), sessions.size());
  }
}

TEST_F(SeatsTest, AHostWithOtherDevicesGetsNewOnes) {
  const auto program = Copy(2);
  Lose();
  FakeWorker& larger = t.Add({"w1", "i1", 3});
  EXPECT_THAT(larger.welcome.device_ids(), testing::ElementsAre(4, 5, 6));
  EXPECT_EQ(Run(*program).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Return().welcome.device_ids(), testing::ElementsAre(2, 3));
  EXPECT_TRUE(Run(*program).ok());
}

}  // namespace
}  // namespace pw::controller
