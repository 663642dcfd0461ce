#include "pathways/controller/slices/slices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
using What = SliceState::What;

resource::SliceRequest Count(int n, bool exclusive = false) {
  resource::SliceRequest request;
  request.count = n;
  request.exclusive = exclusive;
  return request;
}

SliceState Add(TestCluster& t, const Session& session, const resource::SliceRequest& request) {
  t.cluster->Spares(session.id());
  auto state = t.cluster->AddSlice(session.id(), request);
  EXPECT_TRUE(state.ok()) << state.status();
  return *state;
}

int First(const SliceState& state) { return state.devices.front().v; }

TEST(SlicesTest, ADeviceOfASliceIsADeviceLikeAnyOther) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  ASSERT_EQ(slice.what, What::kPlaced);
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {4}), "abcd").ok());
  EXPECT_EQ(*t.FetchRows(1), "abcd");
  EXPECT_EQ(s.Spec(1)->sharding.devices(), slice.devices) << "named as the client named them";
  ASSERT_TRUE(s.Copy({2}, {1}, t.Devices(2, 2), std::nullopt, CopySemantics::kReuseInput).ok());
  EXPECT_EQ(*t.FetchRows(2), "abcd");
  EXPECT_EQ(t.cluster->info()->devices.size(), 4u);
}

TEST(SlicesTest, ProgramsAreCompiledForThePhysicalDevices) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const SliceState first = Add(t, s, Count(1)), second = Add(t, s, Count(1));
  ASSERT_NE(first.physical, second.physical);
  auto executable = t.Compile(t.Toy("copy", 1, 1, 1), second.devices);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ((*executable)->devices, second.devices);
  bool compiled = false;
  for (const Command& command : t.workers[0]->log) {
    if (!command.has_compile()) continue;
    compiled = true;
    EXPECT_EQ(command.compile().local_devices(0), second.physical[0].v);
  }
  EXPECT_TRUE(compiled);
  ASSERT_TRUE(t.Put(1, t.Rows(First(second), 1, {1, 4}), "abcd").ok());
  auto reply = t.Execute((*executable)->handle, {1}, {2});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(*t.FetchRows(2), "abcd");
  EXPECT_EQ(s.Spec(2)->sharding.devices(), second.devices);
}

TEST(SlicesTest, OneComputationNeedsPhysicalDevicesOfItsOwn) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  const SliceState first = Add(t, s, Count(1)), second = Add(t, s, Count(1));
  ASSERT_EQ(First(second), First(first) + 1);
  EXPECT_THAT(t.Compile(t.Toy("copy", 1, 1, 2), t.Devices(First(first), 2)).status().ToString(),
              HasSubstr("both on physical device 0"));
  ASSERT_TRUE(t.Put(1, t.Rows(First(first), 2, {4}), "abcd").ok()) << "arrays may";
  EXPECT_EQ(*t.FetchRows(1), "abcd");
}

TEST(SlicesTest, AReleasedSlicesArraysAreFreedAndItsDevicesAreNoMore) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  auto executable = t.Compile(t.Toy("copy", 1, 1, 2), slice.devices);
  ASSERT_TRUE(executable.ok());
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(3, t.Single(0, {1}), "x").ok());
  ASSERT_TRUE(t.Ready({1, 3}).ok());
  EXPECT_EQ(t.workers[0]->num_shards(), 3u);
  ASSERT_TRUE(t.cluster->ReleaseSlice(s.id(), slice.slice).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
  EXPECT_THAT(t.Ready({1}).ToString(), HasSubstr("slice 1 was released"));
  EXPECT_THAT(t.Execute((*executable)->handle, {1}, {2}).status().ToString(), HasSubstr("slice 1 was released"));
  EXPECT_THAT(t.Put(4, t.Single(First(slice), {1}), "x").ToString(), HasSubstr("slice 1 was released"));
  EXPECT_EQ(*t.Fetch(3), "x");
  EXPECT_EQ(t.cluster->ReleaseSlice(s.id(), slice.slice).code(), absl::StatusCode::kNotFound);
  EXPECT_NE(First(Add(t, s, Count(2))), First(slice)) << "not used again while others are unused";
}

TEST(SlicesTest, DevicesBelongToTheirClient) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const SliceState mine = Add(t, s, Count(1));
  auto other = *t.cluster->OpenSession("another");
  const SliceState theirs = Add(t, *other, Count(1));
  EXPECT_NE(First(mine), First(theirs));
  EXPECT_THAT(t.Put(1, t.Single(First(theirs), {1}), "x").ToString(), HasSubstr("does not belong to a slice of this client"));
  EXPECT_THAT(t.Put(2, t.Single(First(mine) + 1, {1}), "x").ToString(), HasSubstr("belongs to no slice"));
  EXPECT_EQ(t.cluster->ReleaseSlice(s.id(), theirs.slice).code(), absl::StatusCode::kNotFound);
  resource::SliceRequest beside = Count(1);
  beside.beside = theirs.slice;
  EXPECT_FALSE(t.cluster->AddSlice(s.id(), beside).ok());
}

TEST(SlicesTest, WhoWaitsIsPlacedWhenAnotherClientGoes) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  auto other = *t.cluster->OpenSession("another");
  Add(t, *other, Count(2, true));
  const SliceState waiting = Add(t, s, Count(1));
  ASSERT_EQ(waiting.what, What::kWaiting);
  EXPECT_EQ(waiting.position, 1);
  EXPECT_THAT(waiting.text, HasSubstr("held by slice 1 of client 2"));
  auto still =
      t.Await<SliceState>([&](auto done) { t.cluster->AwaitSlice(s.id(), waiting.slice, absl::Seconds(1), std::move(done)); });
  EXPECT_EQ(still.status().code(), absl::StatusCode::kCancelled) << "not answered yet";
  absl::StatusOr<SliceState> state = absl::UnknownError("not answered");
  t.cluster->AwaitSlice(s.id(), waiting.slice, absl::Seconds(1), [&](auto answer) { state = std::move(answer); });
  other = nullptr;
  t.Run();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->what, What::kPlaced);
  ASSERT_TRUE(t.Put(1, t.Single(First(*state), {1}), "x").ok());
  EXPECT_EQ(*t.Fetch(1), "x");
}

TEST(SlicesTest, AnAwaitEndsWithItsTime) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  Add(t, s, Count(1, true));
  const SliceState waiting = Add(t, s, Count(1));
  absl::StatusOr<SliceState> state = absl::UnknownError("not answered");
  t.cluster->AwaitSlice(s.id(), waiting.slice, absl::Seconds(1), [&](auto answer) { state = std::move(answer); });
  t.Run();
  EXPECT_FALSE(state.ok());
  t.timers.Advance(absl::Seconds(1));
  t.Run();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->what, What::kWaiting);
  ASSERT_TRUE(t.cluster->ReleaseSlice(s.id(), waiting.slice).ok()) << "gives up";
  EXPECT_FALSE(t.cluster->ReleaseSlice(s.id(), waiting.slice).ok());
}

TEST(SlicesTest, HostsThatJoinPlaceWhoWaitsAndMendTheSlicesThatLostOnesBroke) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  Add(t, s, Count(1, true));
  const SliceState waiting = Add(t, s, Count(1));
  ASSERT_EQ(waiting.what, What::kWaiting);
  t.Add({"w1", "i1", 2});
  auto placed =
      t.Await<SliceState>([&](auto done) { t.cluster->AwaitSlice(s.id(), waiting.slice, absl::Seconds(1), std::move(done)); });
  ASSERT_TRUE(placed.ok());
  ASSERT_EQ(placed->what, What::kPlaced);
  EXPECT_EQ(placed->island, "i1");
  EXPECT_EQ(placed->hosts, std::vector<std::string>{"w1"});
  ASSERT_TRUE(t.Put(1, t.Single(First(*placed), {1}), "x").ok());
  ASSERT_TRUE(t.Put(2, t.Single(0, {1}), "y").ok());
  ASSERT_TRUE(t.Ready({1, 2}).ok());
  t.workers[1]->Die();
  t.Run();
  EXPECT_THAT(t.Ready({1}).ToString(), HasSubstr("host 'w1' of island 'i1' is gone since "));
  EXPECT_THAT(t.Put(3, t.Single(First(*placed), {1}), "x").ToString(), HasSubstr("host 'w1' of island 'i1' is gone since "));
  EXPECT_EQ(*t.Fetch(2), "y");
  t.Add({"another", "i1", 2});  // it takes the seat, and the slice is whole again
  ASSERT_TRUE(t.Put(4, t.Single(First(*placed), {1}), "z").ok());
  EXPECT_EQ(*t.Fetch(4), "z");
  EXPECT_FALSE(t.Ready({1}).ok());
  EXPECT_TRUE(t.cluster->ReleaseSlice(s.id(), placed->slice).ok());
  EXPECT_FALSE(t.cluster->ReleaseSlice(s.id(), placed->slice).ok());
}

struct DrainTest : testing::Test {
  absl::StatusOr<DrainReport> Drain(const std::string& host, bool undo = false) {
    absl::StatusOr<DrainReport> report = absl::UnknownError("not answered");
    t.cluster->DrainHost(host, undo, [&](auto answer) { report = std::move(answer); });
    t.Run();
    return report;
  }
  TestCluster t{1, 2};
};

TEST_F(DrainTest, ArraysAndProgramsGoOverUnderTheirNames) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  auto executable = t.Compile(t.Toy("copy", 1, 1, 2), slice.devices);
  ASSERT_TRUE(executable.ok());
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Execute((*executable)->handle, {1}, {2}).ok());
  ASSERT_TRUE(t.Put(9, t.Single(0, {1}), "x").ok());
  ASSERT_TRUE(t.Ready({2, 9}).ok());
  EXPECT_EQ(t.workers[0]->num_shards(), 5u);

  t.Add({"w1", "i1", 2});
  const auto report = Drain("w0");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->moved, std::vector<SliceId>{slice.slice});
  EXPECT_TRUE(report->stuck.empty());
  EXPECT_EQ(t.workers[0]->num_shards(), 1u) << "what was asked for by name stays";
  EXPECT_EQ(t.workers[0]->num_executables(), 0u);
  EXPECT_EQ(t.workers[1]->num_shards(), 4u);
  EXPECT_EQ(t.workers[1]->num_executables(), 1u);

  EXPECT_EQ(s.Spec(1)->sharding.devices(), slice.devices);
  EXPECT_EQ(*t.FetchRows(1), "abcdefgh");
  EXPECT_EQ(*t.FetchRows(2), "abcdefgh");
  auto reply = t.Execute((*executable)->handle, {2}, {3});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(*t.FetchRows(3), "abcdefgh");
  EXPECT_EQ(s.Spec(3)->sharding.devices(), slice.devices);
  auto state =
      t.Await<SliceState>([&](auto done) { t.cluster->AwaitSlice(s.id(), slice.slice, absl::Seconds(1), std::move(done)); });
  EXPECT_EQ(state->epoch, 2u);
  EXPECT_EQ(state->hosts, (std::vector<std::string>{"w1", "w1"}));

  t.workers[0]->Die();
  t.Run();
  EXPECT_EQ(*t.FetchRows(3), "abcdefgh");
  ASSERT_TRUE(s.Destruct({{1, 2, 3}}).ok());
  t.Run();
  EXPECT_EQ(t.workers[1]->num_shards(), 0u);
}

TEST_F(DrainTest, OnlyProgramsThatMoveAreLoweredAgain) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  auto load = [&](const std::vector<DeviceId>& devices) {
    ::pathways::v1::Program program;
    for (DeviceId device : devices) program.mutable_shardings()->Add()->add_devices(device.v);
    program.add_nodes()->mutable_arg()->set_dtype(static_cast<int32_t>(buffers::DType::kU8));
    auto* transfer = program.add_nodes()->mutable_transfer();
    transfer->set_input(0);
    transfer->set_sharding(1);
    program.add_nodes()->mutable_result()->set_input(1);
    return t.Await<std::shared_ptr<const ExecutableInfo>>(
        [&](auto done) { s.CompileProgram(Bytes::FromString(program.SerializeAsString()), std::move(done)); });
  };
  auto loads = [&](uint32_t host) { return t.cluster->fabric().outbox().counters(HostId(host)).programs; };
  const auto moving = load(slice.devices), staying = load({DeviceId(0), DeviceId(1)});
  ASSERT_TRUE(moving.ok()) << moving.status();
  ASSERT_TRUE(staying.ok()) << staying.status();
  t.Run();
  EXPECT_EQ(loads(0), 2u);
  t.Add({"w1", "i1", 2});
  ASSERT_TRUE(Drain("w0").ok());
  EXPECT_EQ(loads(0), 2u) << "the other one is as it was";
  EXPECT_EQ(loads(1), 1u);
}

TEST_F(DrainTest, WhatIsOnItsWayArrives) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  auto executable = t.Compile(t.Toy("copy", 1, 1, 2), slice.devices);
  ASSERT_TRUE(executable.ok());
  t.Add({"w1", "i1", 2});
  // An array whose bytes arrive after the move, a computation on it from before the move, and a compilation in flight during the move.
  const HostLayout row{buffers::DType::kU8, {1, 4}, std::nullopt};
  ASSERT_TRUE(s.MakeArray(1, t.Rows(First(slice), 2, {2, 4}), {{101, row, {0}}, {102, row, {1}}}).ok());
  ASSERT_TRUE(t.Execute((*executable)->handle, {1}, {2}).ok());
  t.workers[0]->hold_compiled = true;
  absl::StatusOr<std::shared_ptr<const ExecutableInfo>> late = absl::UnknownError("not answered");
  CompileRequest request;
  request.format = "mlir";
  request.program = Bytes::FromString(t.Toy("copy", 1, 1, 2).SerializeAsString());
  request.num_partitions = 2;
  request.devices = slice.devices;
  s.Compile(request, [&](auto info) { late = std::move(info); });
  absl::StatusOr<DrainReport> report = absl::UnknownError("not answered");
  t.cluster->DrainHost("w0", false, [&](auto answer) { report = std::move(answer); });
  t.Run();
  EXPECT_FALSE(report.ok()) << "the data is not there";
  t.workers[0]->ReleaseCompiled();
  t.Run();
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_TRUE(s.StoreHostBuffer(101, Bytes::Copy("abcd")).ok());
  ASSERT_TRUE(s.StoreHostBuffer(102, Bytes::Copy("efgh")).ok());
  t.Run();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(*t.FetchRows(1), "abcdefgh");
  EXPECT_EQ(*t.FetchRows(2), "abcdefgh");
  ASSERT_TRUE(t.Execute((*late)->handle, {2}, {3}).ok());
  EXPECT_EQ(*t.FetchRows(3), "abcdefgh");
  EXPECT_EQ(t.workers[0]->num_shards(), 0u);
  EXPECT_EQ(t.workers[0]->num_executables(), 0u);
}

TEST_F(DrainTest, WhatHasNowhereToGoStays) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {4}), "abcd").ok());
  const auto report = Drain("w0");
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->moved.empty());
  ASSERT_EQ(report->stuck.size(), 1u);
  EXPECT_EQ(*t.FetchRows(1), "abcd");
  EXPECT_EQ(Add(t, s, Count(1)).what, What::kRefused) << "no device takes slices";
  ASSERT_TRUE(Drain("w0", true).ok());
  EXPECT_EQ(Add(t, s, Count(1)).what, What::kPlaced);
  EXPECT_THAT(Drain("elsewhere").status().ToString(), HasSubstr("no host 'elsewhere'; there are w0"));
}

TEST_F(DrainTest, AProgramThatDoesNotCompileThereStays) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  auto executable = t.Compile(t.Toy("copy", 1, 1, 2), slice.devices);
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {2, 4}), "abcdefgh").ok());
  t.Add({"w1", "i1", 2});
  t.workers[1]->hold_compiled = true;
  absl::StatusOr<DrainReport> report = absl::UnknownError("not answered");
  t.cluster->DrainHost("w0", false, [&](auto answer) { report = std::move(answer); });
  t.Run();
  EXPECT_FALSE(report.ok());
  t.workers[1]->Die();
  t.Run();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->stuck.size(), 1u);
  EXPECT_THAT(report->stuck[0].second, HasSubstr("w1"));
  ASSERT_TRUE(t.Execute((*executable)->handle, {1}, {2}).ok());
  EXPECT_EQ(*t.FetchRows(2), "abcdefgh");
}

TEST_F(DrainTest, AClientThatGoesMeanwhileHoldsNobodyUp) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2));
  ASSERT_TRUE(t.Compile(t.Toy("copy", 1, 1, 2), slice.devices).ok());
  t.Add({"w1", "i1", 2});
  t.workers[1]->hold_compiled = true;
  absl::StatusOr<DrainReport> report = absl::UnknownError("not answered");
  t.cluster->DrainHost("w0", false, [&](auto answer) { report = std::move(answer); });
  t.Run();
  t.session = nullptr;
  t.Run();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->moved.empty());
  Session& next = t.Open();
  EXPECT_EQ(Add(t, next, Count(2, true)).hosts[0], "w1");
}

struct SuspendTest : testing::Test {
  absl::StatusOr<SuspendReport> Step(SessionId client, bool resume) {
    absl::StatusOr<SuspendReport> report = absl::UnknownError("not answered");
    t.cluster->SuspendClient(client, resume, [&](auto answer) { report = std::move(answer); });
    t.Run();
    return report;
  }
  TestCluster t{2, 2};
};

TEST_F(SuspendTest, AClientMakesRoomAndComesBackElsewhere) {
  Session& s = t.Open();
  const SliceState slice = Add(t, s, Count(2, true));
  ASSERT_EQ(slice.hosts[0], "w0");
  auto executable = t.Compile(t.Toy("copy", 1, 1, 2), slice.devices);
  ASSERT_TRUE(executable.ok());
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(2, t.Single(3, {1}), "x").ok());
  ASSERT_TRUE(t.Ready({1, 2}).ok());
  const auto saved = Step(s.id(), false);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->arrays, 2);
  EXPECT_EQ(saved->bytes, 9);
  EXPECT_TRUE(s.suspended());
  EXPECT_EQ(t.workers[0]->log.back().has_release(), true);
  bool in_host_memory = false;
  for (const Command& command : t.workers[0]->log) {
    if (command.has_move()) in_host_memory |= command.move().receives(0).memory_kind() == "pinned_host";
  }
  EXPECT_TRUE(in_host_memory);
  EXPECT_FALSE(Step(s.id(), false).ok()) << "it is suspended already";

  auto other = *t.cluster->OpenSession("another");
  resource::SliceRequest there = Count(2, true);
  there.island = "i0";
  ASSERT_EQ(Add(t, *other, there).what, What::kPlaced);
  bool resumed = false;
  s.WhenResumed([&] { resumed = true; });
  const auto back = Step(s.id(), true);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(resumed);
  EXPECT_EQ(*t.FetchRows(1), "abcdefgh");
  EXPECT_EQ(*t.Fetch(2), "x");
  EXPECT_EQ(s.Spec(1)->sharding.devices(), slice.devices);
  ASSERT_TRUE(t.Execute((*executable)->handle, {1}, {3}).ok());
  EXPECT_EQ(*t.FetchRows(3), "abcdefgh");
  EXPECT_EQ(t.workers[0]->num_shards(), 0u);
  EXPECT_FALSE(Step(s.id(), true).ok()) << "it is not suspended";
}

TEST_F(SuspendTest, WhereThereIsNoRoomItStaysSuspended) {
  Session& s = t.Open();
  resource::SliceRequest here = Count(2, true);
  here.island = "i0";
  const SliceState slice = Add(t, s, here);
  ASSERT_TRUE(t.Put(1, t.Rows(First(slice), 2, {4}), "abcd").ok());
  ASSERT_TRUE(Step(s.id(), false).ok());
  auto other = *t.cluster->OpenSession("another");
  ASSERT_EQ(Add(t, *other, here).what, What::kPlaced);
  EXPECT_THAT(Step(s.id(), true).status().ToString(), HasSubstr("cannot be resumed now"));
  EXPECT_TRUE(s.suspended());
  other = nullptr;
  t.Run();
  ASSERT_TRUE(Step(s.id(), true).ok());
  EXPECT_EQ(*t.FetchRows(1), "abcd");
  EXPECT_THAT(Step(SessionId(77), false).status().ToString(), HasSubstr("no client 77"));
}

}  // namespace
}  // namespace pw::controller
