#include "pathways/dispatch/plan_arrays.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dispatch/testing/test_topology.h"

namespace pw::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlanPutTest, BytesGoOnceToEachHostHoweverManyShards) {
  const auto topology = TestTopology(2, 4);
  Recorder recorder(topology);
  buffers::ArraySpec spec{buffers::DType::kF32, {2}, buffers::Sharding::Replicated(DeviceRange(0, 8), "device")};
  const std::vector<int32_t> shards = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::optional<buffers::Dims> strides;
  const buffers::Dims dims = {2};
  PutCall call{SessionId(1), ArrayId(5), &spec, dims, &strides, shards, 9, 8};
  auto hosts = PlanPut(topology, call, Bytes::Copy("01234567"), [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  EXPECT_THAT(hosts, ElementsAre(HostId(0), HostId(1)));
  auto commands = recorder.Commands();
  ASSERT_EQ(commands.size(), 2u);
  for (auto& [host, list] : commands) {
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].put().placements_size(), 4);
    EXPECT_EQ(list[0].put().payload_bytes(), 8u);
    EXPECT_EQ(list[0].put().placements(3).local_device(), 3);
    EXPECT_EQ(list[0].put().placements(3).shard(), static_cast<int>(host.v) * 4 + 3);
  }
}

TEST(PlanExecuteTest, OneCommandWhateverTheNumberOfShards) {
  for (int devices : {1, 8, 2048}) {
    const auto topology = TestTopology(1, devices);
    Recorder recorder(topology);
    program::Executable executable;
    executable.id = ExecutableId(3);
    executable.devices = DeviceRange(0, devices);
    executable.hosts = *HostsOfComputation(topology, executable.devices);
    const std::vector<ArrayId> args = {ArrayId(1)}, results = {ArrayId(2)};
    PlanExecute({SessionId(1), &executable, args, results}, [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
    auto commands = recorder.Commands();
    ASSERT_EQ(commands[HostId(0)].size(), 1u);
    EXPECT_LT(commands[HostId(0)][0].ByteSizeLong(), 40u);
  }
}

TEST(PlanExecuteTest, OneCommandForEachOfSeveralHosts) {
  const auto topology = TestTopology(3, 2);
  Recorder recorder(topology);
  program::Executable executable;
  executable.devices = DeviceRange(0, 4);
  executable.hosts = *HostsOfComputation(topology, executable.devices);
  EXPECT_THAT(executable.hosts, ::testing::ElementsAre(HostId(0), HostId(1)));
  ExecuteCall call{SessionId(1), &executable, {}, {}};
  call.launch = 77;
  PlanExecute(call, [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  auto commands = recorder.Commands();
  EXPECT_EQ(commands.size(), 2u);
  for (HostId host : executable.hosts) {
    ASSERT_EQ(commands[host].size(), 1u);
    EXPECT_EQ(commands[host][0].execute().launch(), 77u) << "the same on all of them";
  }
  EXPECT_EQ(HostsOfComputation(topology, DeviceRange(0, 7)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(HostsOfComputation(topology, {DeviceId(0), DeviceId(0)}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanAliasTest, OneCommandForEachHost) {
  const auto topology = TestTopology(2, 2);
  Recorder recorder(topology);
  std::vector<AliasItem> items;
  for (int i = 0; i < 4; ++i) items.push_back({ArrayId(10 + i), 0, ArrayId(1), i, DeviceId(i)});
  PlanAlias(topology, SessionId(1), items, [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  auto commands = recorder.Commands();
  ASSERT_EQ(commands.size(), 2u);
  ASSERT_EQ(commands[HostId(1)].size(), 1u);
  EXPECT_EQ(commands[HostId(1)][0].alias().items_size(), 2);
  EXPECT_EQ(commands[HostId(1)][0].alias().items(0).source_shard(), 2);
}

}  // namespace
}  // namespace pw::dispatch
