// The order of computations in the gang scheduler, as hosts see it.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using testing::ElementsAre;
using testing::IsEmpty;

class GangsTest : public testing::Test {
 protected:
  static ClusterOptions OneAtATime(const std::string& policy = "fifo") {
    ClusterOptions options;
    options.gang.policy = policy;
    options.gang.window_gangs = 1;
    options.gang.window_ns = 0;
    return options;
  }
  // Returns a program with one argument and one result on devices [first, first + 2), and makes its argument, for the session in `c`.
  Handle Program(int first = 0, std::vector<int> donated = {}) {
    auto info = c.Compile(TestCluster::Toy("copy", 1, 1, 2, std::move(donated)), TestCluster::Devices(first, 2));
    EXPECT_TRUE(info.ok()) << info.status();
    return (*info)->handle;
  }
  void Argument(Handle handle, int first = 0) {
    EXPECT_TRUE(c.Put(handle, TestCluster::Rows(first, 2, {2, 4}), "abcdefgh").ok());
    c.Run();
  }
  void Execute(Handle program, Handle arg, Handle result) {
    EXPECT_TRUE(c.Execute(program, {arg}, {result}).ok());
    c.Run();
  }
  // Returns the host's commands: "e" an Execute that is granted, "w" one that waits, "g2" a Grant of two gangs.
  std::vector<std::string> Told(int host = 0) {
    std::vector<std::string> told;
    for (const Command& command : c.workers[host]->log) {
      if (command.has_execute()) told.push_back(command.execute().grant() == 0 ? "e" : "w");
      if (command.has_grant()) told.push_back("g" + std::to_string(command.grant().gangs_size()));
    }
    return told;
  }
  const gang::Scheduler& scheduler() { return c.cluster->fabric().gangs().scheduler(); }

  TestCluster c{1, 4, OneAtATime()};
};

TEST_F(GangsTest, WhatFitsIsGrantedWithItsCommandAndTheRestAsRoomComes) {
  c.Open();
  const Handle program = Program();
  Argument(1);
  c.workers[0]->hold_done = true;
  for (Handle result : {2, 3, 4}) Execute(program, 1, result);
  EXPECT_THAT(Told(), ElementsAre("e", "w", "w"));
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  EXPECT_THAT(Told(), ElementsAre("e", "w", "w", "g2"));  // the first call cost nothing: now both fit, in one message
  EXPECT_TRUE(c.Ready({2, 3, 4}).ok());
  EXPECT_EQ(scheduler().gangs(), 0u);
  EXPECT_EQ(*c.FetchRows(4), "abcdefgh");
}

TEST_F(GangsTest, ThoseThatEndedAreKeptWhileSomebodyLooks) {
  c.Open();
  const Handle program = Program(1);
  Argument(1, 1);
  Execute(program, 1, 2);
  RecentGangs& recent = c.cluster->fabric().gangs().recent();
  EXPECT_EQ(recent.last(), 0u);
  recent.Look(c.clock.Now());
  Execute(program, 1, 3);
  ASSERT_EQ(recent.After(0).size(), 1u);
  const RecentGang gang = recent.After(0)[0];
  EXPECT_EQ(gang.session, c.session->id());
  ASSERT_NE(gang.label, nullptr);
  EXPECT_EQ(gang.label->name, "copy");
  EXPECT_THAT(gang.label->devices, ElementsAre(testing::Pair(DeviceId(1), DeviceId(2))));
  EXPECT_FALSE(gang.failed);
  EXPECT_LE(gang.granted_ns, gang.done_ns);
}

TEST_F(GangsTest, ThoseUnderwayAreListedInTheOrderOfTheirGrantsWithTheHeadOfEachHost) {
  TestCluster two{2, 4};
  two.Open();
  std::vector<Handle> programs;
  for (int first : {0, 4})
    programs.push_back((*two.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(first, 2)))->handle);
  ASSERT_TRUE(two.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(two.Put(2, TestCluster::Rows(4, 2, {2, 4}), "abcdefgh").ok());
  two.Run();
  for (auto& worker : two.workers) worker->hold_done = true;
  ASSERT_TRUE(two.Execute(programs[0], {1}, {3}).ok());
  ASSERT_TRUE(two.Execute(programs[0], {1}, {4}).ok());
  ASSERT_TRUE(two.Execute(programs[1], {2}, {5}).ok());
  two.Run();
  const auto underway = two.cluster->fabric().gangs().ListUnderway();
  ASSERT_EQ(underway.size(), 3u);
  EXPECT_TRUE(underway[0].heads);
  EXPECT_FALSE(underway[1].heads);
  EXPECT_TRUE(underway[2].heads);
  EXPECT_EQ(underway[0].executable, underway[1].executable);
  EXPECT_NE(underway[0].executable, underway[2].executable);
  const auto hosts = two.cluster->fabric().ops().HostsOf(underway[2].gang);
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts.begin()->first, HostId(1));
  for (auto& worker : two.workers) {
    worker->hold_done = false;
    worker->ReleaseDone();
  }
  two.Run();
  EXPECT_TRUE(two.cluster->fabric().gangs().ListUnderway().empty());
}

TEST_F(GangsTest, WhateverTimeAHostSaysItTookIsATime) {
  c.Open();
  const Handle program = Program();
  Argument(1);
  c.workers[0]->hold_done = true;
  Handle result = 2;
  for (double microseconds : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e300, -1.0}) {
    Execute(program, 1, result);
    const auto& execute = c.workers[0]->log.back().execute();
    ::pathways::v1::FromWorker message;
    auto& done = *message.add_events()->mutable_done();
    done.add_ok(execute.op());
    done.add_device_microseconds(microseconds);
    c.workers[0]->Send(message);
    c.Run();
    EXPECT_TRUE(c.Ready({result++}).ok());
    EXPECT_EQ(scheduler().gangs(), 0u);
    EXPECT_GE(scheduler().PredictCost(ExecutableId(execute.executable())), 0);
    EXPECT_LE(scheduler().PredictCost(ExecutableId(execute.executable())), absl::ToInt64Nanoseconds(absl::Hours(24)));
  }
}

TEST_F(GangsTest, AConsumerMayBeGrantedBeforeItsProducerHasRunButNotBeforeItIsGranted) {
  c.Open();
  const Handle left = Program(0), right = Program(2);
  Argument(1);
  c.workers[0]->hold_done = true;
  Execute(left, 1, 2);
  Execute(left, 1, 3);
  auto moved = [&](Handle from, Handle to) {
    EXPECT_TRUE(c.session->Copy({to}, {from}, TestCluster::Devices(2, 2), std::nullopt, CopySemantics::kAlwaysCopy).ok());
  };
  moved(2, 12);
  moved(3, 13);
  Execute(right, 13, 23);  // reads a copy of a waiting result
  Execute(right, 12, 22);
  EXPECT_THAT(Told(), ElementsAre("e", "w", "w", "e"));
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  EXPECT_TRUE(c.Ready({22, 23}).ok());
  EXPECT_EQ(scheduler().gangs(), 0u);
}

TEST_F(GangsTest, AnUploadHoldsUpWhoNeedsItAndNobodyElse) {
  c.Open();
  const Handle program = Program();
  Argument(1);
  HostShard source{50, {buffers::DType::kU8, {1, 4}, std::nullopt}, {0}},
      other{51, {buffers::DType::kU8, {1, 4}, std::nullopt}, {1}};
  ASSERT_TRUE(c.session->MakeArray(2, TestCluster::Rows(0, 2, {2, 4}), {source, other}).ok());
  Execute(program, 2, 3);
  Execute(program, 1, 4);
  EXPECT_THAT(Told(), ElementsAre("w", "e"));
  EXPECT_TRUE(c.Ready({4}).ok());
  ASSERT_TRUE(c.session->StoreHostBuffer(50, Bytes::Copy("abcd")).ok());
  c.Run();
  EXPECT_THAT(Told(), ElementsAre("w", "e"));
  ASSERT_TRUE(c.session->StoreHostBuffer(51, Bytes::Copy("efgh")).ok());
  c.Run();
  EXPECT_THAT(Told(), ElementsAre("w", "e", "g1"));
  EXPECT_EQ(*c.FetchRows(3), "abcdefgh");
}

TEST_F(GangsTest, ADonorWaitsForEarlierReadersOnItsDevices) {
  c.Open();
  const Handle reader = Program(0), donor = Program(0, {0});
  Argument(1);
  c.workers[0]->hold_done = true;
  Execute(reader, 1, 2);
  Execute(reader, 1, 3);  // waits
  Execute(donor, 1, 4);
  EXPECT_THAT(Told(), ElementsAre("e", "w", "w"));
  EXPECT_EQ(scheduler().grants(), 1u);
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  EXPECT_TRUE(c.Ready({3, 4}).ok());
}

TEST_F(GangsTest, AClientsEndTakesBackWhatWasNotGranted) {
  Session& first = c.Open();
  const std::shared_ptr<Session> keep = c.session;
  const Handle program = Program();
  Argument(1);
  c.workers[0]->hold_done = true;
  for (Handle result = 2; result < 50; ++result) Execute(program, 1, result);
  EXPECT_EQ(scheduler().clients().at(first.id()).waiting, 47);
  c.Open();
  const Handle others = Program();
  Argument(1);
  Execute(others, 1, 2);
  EXPECT_EQ(scheduler().gangs(), 49u);
  const_cast<std::shared_ptr<Session>&>(keep) = nullptr;
  c.Run();
  EXPECT_EQ(scheduler().gangs(), 2u);  // the running one, and the other client's
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  EXPECT_TRUE(c.Ready({2}).ok());
  EXPECT_EQ(scheduler().gangs(), 0u);
}

TEST(GangShares, AWeightChangesWhoseTurnItIs) {
  ClusterOptions options;
  options.gang.policy = "priority";
  options.gang.window_gangs = 1;
  options.gang.window_ns = 0;
  TestCluster c(1, 2, options);
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<Handle> programs;
  for (int i = 0; i < 2; ++i) {
    c.Open();
    sessions.push_back(c.session);
    programs.push_back((*c.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2)))->handle);
    ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
    c.Run();
  }
  c.workers[0]->hold_done = true;
  auto execute = [&](int client, Handle result) {
    ExecuteRequest request;
    request.executable = programs[client];
    request.args = {1};
    request.results = {result};
    ASSERT_TRUE(sessions[client]->Execute(request).ok());
    c.Run();
  };
  for (Handle result : {2, 3}) execute(0, result);
  for (Handle result : {2, 3}) execute(1, result);
  c.cluster->fabric().gangs().SetShare(sessions[1]->id(), {.priority = 5});
  c.workers[0]->ReleaseDone();
  c.Run();
  const Command& grant = c.workers[0]->log.back();
  ASSERT_TRUE(grant.has_grant());
  EXPECT_THAT(grant.grant().gangs(), ElementsAre(3));  // the first one of the second client
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  sessions.clear();
}

TEST(GangShares, ALongComputationIsGrantedAheadWhenItsDeviceIsAlmostFree) {
  ClusterOptions options;
  options.gang.window_ns = 0;
  options.gang.lead_ns = 3'000'000;
  options.gang.default_cost_ns = 20'000'000;
  TestCluster c(1, 1, options);
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<Handle> programs;
  for (int i = 0; i < 2; ++i) {
    c.Open();
    sessions.push_back(c.session);
    programs.push_back((*c.Compile(TestCluster::Toy("copy", 1, 1, 1), TestCluster::Devices(0, 1)))->handle);
    ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 1, {1, 4}), "abcd").ok());
    c.Run();
  }
  c.workers[0]->hold_done = true;
  auto execute = [&](int client, Handle result) {
    ExecuteRequest request;
    request.executable = programs[client];
    request.args = {1};
    request.results = {result};
    ASSERT_TRUE(sessions[client]->Execute(request).ok());
    c.Run();
  };
  const auto granted = [&] { return c.cluster->fabric().gangs().scheduler().grants(); };
  execute(1, 2);
  c.workers[0]->ReleaseDone();
  c.Run();
  execute(0, 2);
  execute(0, 3);
  EXPECT_EQ(granted(), 2u) << "the other client may come again";
  c.timers.Advance(absl::Milliseconds(16));
  EXPECT_EQ(granted(), 2u);
  c.timers.Advance(absl::Milliseconds(2));
  EXPECT_EQ(granted(), 3u);
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  sessions.clear();
}

// Two gangs wait for a device, and the first does not fit. Its client is granted another device: then it stands behind the second, which
// fits.
TEST(GangShares, WhatOneIsGivenMayBringAnothersTurn) {
  ClusterOptions options;
  options.gang.policy = "share";
  options.gang.window_gangs = 1;
  options.gang.window_ns = options.gang.default_cost_ns * 3 / 2;
  TestCluster c(1, 3, options);
  struct Client {
    std::shared_ptr<Session> session;
    std::vector<Handle> programs;  // by device; each device has an argument of its own
  };
  std::vector<Client> clients(2);
  for (Client& client : clients) {
    c.Open();
    client.session = c.session;
    for (int device = 0; device < 3; ++device) {
      client.programs.push_back((*c.Compile(TestCluster::Toy("copy", 1, 1, 1), TestCluster::Devices(device, 1)))->handle);
      ASSERT_TRUE(c.Put(static_cast<Handle>(100 + device), TestCluster::Rows(device, 1, {1, 4}), "abcd").ok());
      c.Run();
    }
  }
  auto execute = [&](int client, int device, Handle result) {
    ExecuteRequest request;
    request.executable = clients[client].programs[device];
    request.args = {static_cast<Handle>(100 + device)};
    request.results = {result};
    ASSERT_TRUE(clients[client].session->Execute(request).ok());
    c.Run();
  };
  execute(1, 0, 1);  // measures its cost, which is small
  c.workers[0]->hold_done = true;
  execute(1, 2, 2);
  execute(0, 0, 3);
  execute(0, 0, 4);  // waits for room
  execute(1, 0, 5);  // there is room for it, but it came later
  c.workers[0]->log.clear();
  execute(0, 1, 6);
  ASSERT_EQ(c.workers[0]->log.size(), 2u);
  EXPECT_TRUE(c.workers[0]->log[0].has_execute());
  EXPECT_TRUE(c.workers[0]->log[1].has_grant());
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  c.Run();
  c.session = clients[1].session;
  EXPECT_TRUE(c.Ready({5}).ok());
  EXPECT_EQ(c.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

}  // namespace
}  // namespace pw::controller
