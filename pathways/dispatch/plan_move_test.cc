#include "pathways/dispatch/plan_move.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dispatch/testing/test_topology.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;

buffers::ArraySpec Rows(int first_device, int devices, buffers::Dims dims) {
  buffers::Dims counts(dims.size(), 1);
  counts[0] = devices;
  return {buffers::DType::kF32, dims, *buffers::Sharding::Tiled(DeviceRange(first_device, devices), "device", {counts, {}})};
}

std::map<HostId, std::vector<Command>> Plan(const resource::Topology& topology, const buffers::ArraySpec& from,
                                            const buffers::ArraySpec& to, const buffers::ReshardPlan& plan) {
  Recorder recorder(topology);
  PlanMove(
      topology, {SessionId(1), ArrayId(1), &from, ArrayId(2), &to}, plan, [&] { return recorder.next_transfer++; },
      [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  return recorder.Commands();
}

TEST(PlanMoveTest, CopiesBetweenHostsGoDirectly) {
  const auto topology = TestTopology(2, 4);
  const auto from = Rows(0, 4, {8, 2});
  const auto to = Rows(4, 4, {8, 2});
  auto commands = Plan(topology, from, to, ShardwisePlan(from));
  ASSERT_EQ(commands[HostId(0)].size(), 1u);
  ASSERT_EQ(commands[HostId(1)].size(), 1u);
  const auto& sends = commands[HostId(0)][0].move();
  const auto& receives = commands[HostId(1)][0].move();
  ASSERT_EQ(sends.sends_size(), 4);
  ASSERT_EQ(receives.receives_size(), 4);
  EXPECT_EQ(sends.receives_size(), 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sends.sends(i).to_host(), 1u);
    ASSERT_EQ(receives.receives(i).pieces_size(), 1);
    EXPECT_EQ(receives.receives(i).pieces(0).transfer(), sends.sends(i).transfer());
    EXPECT_EQ(receives.receives(i).pieces(0).from_host(), 0u);
    EXPECT_EQ(receives.receives(i).dims(0), 2);
  }
}

TEST(PlanMoveTest, EveryTransferHasOneSenderAndOneReceiver) {
  const auto topology = TestTopology(3, 2);
  const auto from = Rows(0, 6, {12, 5});
  buffers::ArraySpec to{
      buffers::DType::kF32, {12, 5}, *buffers::Sharding::Tiled(DeviceRange(0, 4), "device", {{2, 2}, {3, 2, 1, 0}})};
  auto plan =
      buffers::PlanReshard(from.dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> sent, received;
  for (auto& [host, list] : Plan(topology, from, to, *plan)) {
    for (const Command& c : list) {
      for (const auto& s : c.move().sends()) EXPECT_TRUE(sent.insert({s.transfer(), {host.v, s.to_host()}}).second);
      for (const auto& r : c.move().receives()) {
        for (const auto& p : r.pieces()) {
          if (p.from_host() == host.v) continue;
          EXPECT_TRUE(received.insert({p.transfer(), {p.from_host(), host.v}}).second);
        }
      }
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_FALSE(sent.empty());
}

TEST(PlanMoveTest, ReplicasOnOneHostAreSentOnce) {
  const auto topology = TestTopology(2, 4);
  const auto from = Rows(0, 4, {8});
  buffers::ArraySpec to{buffers::DType::kF32, {8}, buffers::Sharding::Replicated(DeviceRange(4, 4), "device")};
  auto plan =
      buffers::PlanReshard(from.dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
  ASSERT_TRUE(plan.ok());
  auto commands = Plan(topology, from, to, *plan);
  EXPECT_EQ(commands[HostId(0)][0].move().sends_size(), 4);
  ASSERT_EQ(commands[HostId(1)].size(), 2u);
  EXPECT_EQ(commands[HostId(1)][0].move().receives_size(), 1);
  const auto& twins = commands[HostId(1)][1].move();
  ASSERT_EQ(twins.receives_size(), 3);
  EXPECT_EQ(twins.receives(0).pieces(0).source_array(), 2u);
  EXPECT_EQ(twins.receives(0).pieces(0).from_host(), 1u);
}

TEST(PlanMoveTest, LargePlansAreCutIntoCommandsOfBoundedSize) {
  constexpr int kDevices = 160;
  const auto topology = TestTopology(2, kDevices);
  const auto from = Rows(0, kDevices, {kDevices * 3, kDevices});
  buffers::ArraySpec to{buffers::DType::kF32, from.dims,
                        *buffers::Sharding::Tiled(DeviceRange(kDevices, kDevices), "device", {{1, kDevices}, {}})};
  auto plan =
      buffers::PlanReshard(from.dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
  ASSERT_TRUE(plan.ok());
  auto commands = Plan(topology, from, to, *plan);
  int sends = 0, receives = 0;
  for (auto& [host, list] : commands) {
    EXPECT_GT(list.size(), 1u);
    for (const Command& c : list) {
      EXPECT_LT(c.ByteSizeLong(), 1u << 20);
      EXPECT_GT(c.move().op(), 0u);
      sends += c.move().sends_size();
      receives += c.move().receives_size();
    }
  }
  EXPECT_EQ(sends, kDevices * kDevices);
  EXPECT_EQ(receives, kDevices);
}

TEST(PlanMoveTest, EmptyShardsHaveNoPieces) {
  const auto topology = TestTopology(1, 2);
  const auto from = Rows(0, 2, {0, 3});
  auto commands = Plan(topology, from, from, ShardwisePlan(from));
  ASSERT_EQ(commands[HostId(0)][0].move().receives_size(), 2);
  EXPECT_EQ(commands[HostId(0)][0].move().receives(0).pieces_size(), 0);
}

}  // namespace
}  // namespace pw::dispatch
