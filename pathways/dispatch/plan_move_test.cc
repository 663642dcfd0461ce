#include "pathways/dispatch/plan_move.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/buffers/testing/random_arrays.h"
#include "pathways/dispatch/testing/test_topology.h"
#include "pathways/program/repeated_moves.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;

buffers::ArraySpec Rows(int first_device, int devices, buffers::Dims dims) {
  buffers::Dims counts(dims.size(), 1);
  counts[0] = devices;
  return {buffers::DType::kF32, dims, *buffers::Sharding::Tiled(DeviceRange(first_device, devices), "device", {counts, {}})};
}

// Returns the planned commands as they are sent.
std::map<HostId, std::vector<Command>> PlanCompact(const resource::Topology& topology, const buffers::ArraySpec& from,
                                                   const buffers::ArraySpec& to, const buffers::ReshardPlan& plan) {
  Recorder recorder(topology);
  PlanMove(
      topology, {SessionId(1), ArrayId(1), &from, ArrayId(2), &to}, plan, [&] { return recorder.next_transfer++; },
      [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  return recorder.Commands();
}

// Returns the planned commands with repeats expanded.
std::map<HostId, std::vector<Command>> Plan(const resource::Topology& topology, const buffers::ArraySpec& from,
                                            const buffers::ArraySpec& to, const buffers::ReshardPlan& plan) {
  auto commands = PlanCompact(topology, from, to, plan);
  for (auto& [host, list] : commands) {
    for (Command& command : list) *command.mutable_move() = program::Expanded(command.move());
  }
  return commands;
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
  // A random order, which repeats cannot shorten.
  std::vector<int32_t> shuffled(kDevices);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  const auto topology = TestTopology(2, kDevices);
  const buffers::Dims dims{kDevices * 3, kDevices};
  const buffers::ArraySpec from{buffers::DType::kF32, dims,
                                *buffers::Sharding::Tiled(DeviceRange(0, kDevices), "device", {{kDevices, 1}, shuffled})};
  buffers::ArraySpec to{buffers::DType::kF32, from.dims,
                        *buffers::Sharding::Tiled(DeviceRange(kDevices, kDevices), "device", {{1, kDevices}, shuffled})};
  auto plan =
      buffers::PlanReshard(from.dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
  ASSERT_TRUE(plan.ok());
  auto commands = PlanCompact(topology, from, to, *plan);
  int sends = 0, receives = 0;
  for (auto& [host, list] : commands) {
    if (host == HostId(0)) {
      EXPECT_GT(list.size(), 1u) << "which shard is sent goes up and down; transfers and places of the receiver do not";
    }
    for (const Command& c : list) {
      EXPECT_LT(c.ByteSizeLong(), 1u << 20);
      EXPECT_GT(c.move().op(), 0u);
      sends += program::Expanded(c.move()).sends_size();
      receives += program::Expanded(c.move()).receives_size();
    }
  }
  EXPECT_EQ(sends, kDevices * kDevices);
  EXPECT_EQ(receives, kDevices);
}

// Rows to rows, and copies to many devices of a host, take one entry per pair of hosts.
TEST(PlanMoveTest, EvenMovesDoNotGrowWithTheNumberOfShards) {
  for (int devices : {8, 256}) {
    const auto topology = TestTopology(2, devices);
    const auto rows = Rows(0, devices, {devices * 4, 2});
    const buffers::ArraySpec whole{buffers::DType::kF32, {4}, buffers::Sharding::Replicated(DeviceRange(0, devices), "device")};
    for (const buffers::ArraySpec& from : {rows, whole}) {
      buffers::ArraySpec to = from;
      to.sharding = from.sharding.WithDevices(DeviceRange(devices, devices));
      auto plan =
          buffers::PlanReshard(from.dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
      ASSERT_TRUE(plan.ok());
      size_t total = 0;
      for (auto& [host, list] : PlanCompact(topology, from, to, *plan)) {
        EXPECT_LE(list.size(), 2u);
        for (const Command& c : list) {
          EXPECT_LE(c.move().sends_size() + c.move().receives_size(), 1);
          total += c.ByteSizeLong();
        }
      }
      EXPECT_LT(total, 300u);
    }
  }
}

// Carries out the commands of a plan on a source whose elements are all different.
struct Mover {
  using Shards = std::map<std::pair<uint64_t, int>, std::vector<int64_t>>;  // by array and shard
  static buffers::Region Of(const ::pathways::v1::Move::Region& region) {
    return {{region.start().begin(), region.start().end()}, {region.size().begin(), region.size().end()}};
  }
  static buffers::Region Whole(const buffers::Dims& dims) { return {buffers::Dims(dims.size(), 0), dims}; }
  static void Copy(const std::vector<int64_t>& from, const buffers::Dims& from_dims, const buffers::Region& at,
                   std::vector<int64_t>* to, const buffers::Dims& to_dims, const buffers::Region& into) {
    ASSERT_TRUE(buffers::CopyDenseRegion(8, reinterpret_cast<const uint8_t*>(from.data()), from_dims, at,
                                         reinterpret_cast<uint8_t*>(to->data()), to_dims, into)
                    .ok());
  }
  static Shards Cut(uint64_t array, const buffers::ArraySpec& spec) {
    std::vector<int64_t> all(Whole(spec.dims).elements());
    std::iota(all.begin(), all.end(), 1);
    Shards shards;
    for (int s = 0; s < spec.sharding.num_shards(); ++s) {
      const buffers::Region region = spec.sharding.TileRegion(spec.dims, spec.sharding.TileOfShard(s));
      auto& shard = shards[{array, s}];
      shard.resize(region.elements());
      if (!region.empty()) Copy(all, spec.dims, region, &shard, region.size, Whole(region.size));
    }
    return shards;
  }

  void Run(const ::pathways::v1::Move& move, const buffers::ArraySpec& from) {
    for (const auto& send : move.sends()) {
      const buffers::Region region = Of(send.region());
      auto& sent = transfers[send.transfer()];
      EXPECT_TRUE(sent.empty()) << "a name of its own";
      sent.resize(region.elements());
      Copy(shards.at({send.array(), send.shard()}), *from.sharding.ShardDims(from.dims, send.shard()), region, &sent, region.size,
           Whole(region.size));
    }
    for (const auto& receive : move.receives()) {
      const buffers::Dims dims(receive.dims().begin(), receive.dims().end());
      std::vector<int64_t> shard(Whole(dims).elements());
      for (const auto& piece : receive.pieces()) {
        const buffers::Region to = Of(piece.to());
        if (piece.source_array() == 0) {
          Copy(transfers.at(piece.transfer()), to.size, Whole(to.size), &shard, dims, to);
        } else {
          const bool twin = piece.source_array() == receive.array();
          Copy(shards.at({piece.source_array(), piece.source_shard()}),
               twin ? dims : *from.sharding.ShardDims(from.dims, piece.source_shard()), Of(piece.from()), &shard, dims, to);
        }
      }
      EXPECT_TRUE(shards.emplace(std::make_pair(receive.array(), receive.shard()), std::move(shard)).second);
    }
  }

  Shards shards;
  std::map<uint64_t, std::vector<int64_t>> transfers;
};

// For any pair of shardings, the commands move every element to its place: first sends, then receives, then copies of equal
// shards.
TEST(PlanMoveTest, AnyReshardMovesEveryElementToItsPlace) {
  std::mt19937 random(5);
  const auto topology = TestTopology(16, 5);
  for (int round = 0; round < 400; ++round) {
    const buffers::Dims dims = buffers::RandomDims(random);
    const buffers::ArraySpec from{buffers::DType::kF32, dims, buffers::RandomSharding(random, dims.size(), 0)};
    const buffers::ArraySpec to{buffers::DType::kF32, dims,
                                buffers::RandomSharding(random, dims.size(), static_cast<int>(buffers::Pick(random, 0, 15)))};
    auto plan = buffers::PlanReshard(dims, from.sharding, to.sharding, [&](DeviceId d) { return topology.FindDevice(d)->host; });
    ASSERT_TRUE(plan.ok()) << plan.status();
    Mover mover{Mover::Cut(1, from), {}};
    auto commands = Plan(topology, from, to, *plan);
    for (bool sends : {true, false}) {
      for (auto& [host, list] : commands) {
        for (Command command : list) {
          sends ? command.mutable_move()->clear_receives() : command.mutable_move()->clear_sends();
          mover.Run(command.move(), from);
        }
      }
    }
    for (const auto& [key, shard] : Mover::Cut(2, to)) EXPECT_EQ(mover.shards.at(key), shard) << "shard " << key.second;
  }
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
