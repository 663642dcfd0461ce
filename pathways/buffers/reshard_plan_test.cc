#include "pathways/buffers/reshard_plan.h"

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/testing/devices.h"
#include "pathways/buffers/testing/random_arrays.h"

namespace pw::buffers {
namespace {

std::function<HostId(DeviceId)> HostsOf(int devices_per_host) {
  return [devices_per_host](DeviceId d) { return HostId(static_cast<uint32_t>(d.v / devices_per_host)); };
}

Dims Plus(const Dims& a, const Dims& b) {
  Dims r = a;
  for (size_t d = 0; d < r.size(); ++d) r[d] += b[d];
  return r;
}

// Tests RP-1 to RP-4 against a model that visits each element of each destination shard.
void CheckPlan(const Dims& dims, const Sharding& source, const Sharding& destination,
               const std::function<HostId(DeviceId)>& host_of) {
  auto plan = PlanReshard(dims, source, destination, host_of);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->size(), static_cast<size_t>(destination.num_shards()));
  for (int s = 0; s < destination.num_shards(); ++s) {
    const ReshardShard& shard = (*plan)[s];
    ASSERT_EQ(shard.shard, s);
    const Region want = *destination.ShardRegion(dims, s);
    const HostId host = host_of(destination.devices()[s]);
    if (shard.same_as >= 0) {
      ASSERT_LT(shard.same_as, s);
      ASSERT_TRUE(shard.pieces.empty());
      ASSERT_EQ(*destination.ShardRegion(dims, shard.same_as), want);
      ASSERT_EQ(host_of(destination.devices()[shard.same_as]), host);
      ASSERT_FALSE((*plan)[shard.same_as].pieces.empty());
      continue;
    }
    std::map<Dims, int> written;
    for (const ReshardPiece& piece : shard.pieces) {
      const Region have = *source.ShardRegion(dims, piece.source_shard);
      ASSERT_FALSE(piece.to.empty());  // RP-3
      ASSERT_EQ(piece.from.size, piece.to.size);
      ForEachIndex(piece.to.size, [&](const Dims& at) {
        const Dims from = Plus(piece.from.start, at), to = Plus(piece.to.start, at);
        for (size_t d = 0; d < dims.size(); ++d) {
          EXPECT_TRUE(from[d] >= 0 && from[d] < have.size[d]);
          EXPECT_TRUE(to[d] >= 0 && to[d] < want.size[d]);
        }
        ++written[to];
        EXPECT_EQ(Plus(have.start, from), Plus(want.start, to));  // RP-2
      });
    }
    ForEachIndex(want.size, [&](const Dims& at) { ASSERT_EQ(written[at], 1); });  // RP-1
    ASSERT_EQ(written.size(), static_cast<size_t>(want.elements()));
  }
}

// The plan takes the nearest holder: same device before same host before any other.
void CheckNearest(const Dims& dims, const Sharding& source, const Sharding& destination,
                  const std::function<HostId(DeviceId)>& host_of) {
  auto plan = PlanReshard(dims, source, destination, host_of);
  auto distance = [&](int s, int d) {
    const DeviceId from = source.devices()[s], to = destination.devices()[d];
    return from == to ? 0 : host_of(from) == host_of(to) ? 1 : 2;
  };
  for (const ReshardShard& shard : *plan) {
    for (const ReshardPiece& piece : shard.pieces) {
      for (int s = 0; s < source.num_shards(); ++s) {
        if (source.TileOfShard(s) != source.TileOfShard(piece.source_shard)) continue;
        ASSERT_LE(distance(piece.source_shard, shard.shard), distance(s, shard.shard));
      }
    }
  }
}

TEST(ReshardPlanTest, MovesEveryElementExactlyOnce) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const Dims dims = RandomDims(rng);
    const Sharding source = RandomSharding(rng, dims.size(), 0);
    const Sharding destination = RandomSharding(rng, dims.size(), static_cast<int>(Pick(rng, 0, 12)));
    const auto host_of = HostsOf(static_cast<int>(Pick(rng, 1, 5)));
    ASSERT_NO_FATAL_FAILURE(CheckPlan(dims, source, destination, host_of));
    ASSERT_NO_FATAL_FAILURE(CheckNearest(dims, source, destination, host_of));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(ReshardPlanTest, TheSameShardingStaysOnItsDevices) {
  const auto s = *Sharding::Tiled(Devices(8), "", {{4, 1}, {0, 0, 1, 1, 2, 2, 3, 3}});
  auto plan = *PlanReshard({8, 3}, s, s, HostsOf(2));
  for (const ReshardShard& shard : plan) {
    ASSERT_EQ(shard.pieces.size(), 1u);
    EXPECT_EQ(shard.pieces[0].source_shard, shard.shard);
  }
}

TEST(ReshardPlanTest, EqualShardsOnOneHostAreFetchedOnce) {
  auto plan = *PlanReshard({8}, Sharding::SingleDevice(DeviceId(0), ""), Sharding::Replicated(Devices(8, 8), ""), HostsOf(4));
  int fetched = 0;
  for (const ReshardShard& shard : plan) fetched += !shard.pieces.empty();
  EXPECT_EQ(fetched, 2);  // once for each of the two hosts
  EXPECT_EQ(plan[3].same_as, 0);
  EXPECT_EQ(plan[7].same_as, 4);
  // Within one host no transfers are saved.
  plan = *PlanReshard({8}, Sharding::SingleDevice(DeviceId(0), ""), Sharding::Replicated(Devices(4), ""), HostsOf(4));
  for (const ReshardShard& shard : plan) EXPECT_EQ(shard.same_as, -1);
}

TEST(ReshardPlanTest, ReplicasShareTheSending) {
  // 8 replicas on 8 hosts feed 16 other hosts: 2 each.
  auto plan = *PlanReshard({8}, Sharding::Replicated(Devices(8), ""), Sharding::Replicated(Devices(16, 8), ""), HostsOf(1));
  std::map<int, int> sent;
  for (const ReshardShard& shard : plan) ++sent[shard.pieces.at(0).source_shard];
  EXPECT_EQ(sent.size(), 8u);
  for (auto [shard, n] : sent) EXPECT_EQ(n, 2);
  // Two hosts with four replicas each feed two other hosts: one copy each, though each host has four shards to choose from.
  plan = *PlanReshard({8}, Sharding::Replicated(Devices(8), ""), Sharding::Replicated(Devices(8, 8), ""), HostsOf(4));
  EXPECT_NE(plan[0].pieces.at(0).source_shard / 4, plan[4].pieces.at(0).source_shard / 4);
  // One host with four replicas feeds four other hosts: a copy of each shard.
  plan = *PlanReshard({8}, Sharding::Replicated(Devices(4), ""), Sharding::Replicated(Devices(16, 4), ""), HostsOf(4));
  sent.clear();
  for (int shard : {0, 4, 8, 12}) ++sent[plan[shard].pieces.at(0).source_shard];
  EXPECT_EQ(sent.size(), 4u);
  // Two tiles held by the same two hosts and read once each: not both are read from the same host.
  plan = *PlanReshard({8}, *Sharding::Tiled(Devices(4), "", {{2}, {0, 1, 0, 1}}), Sharding::SingleDevice(DeviceId(9), ""),
                      HostsOf(2));
  EXPECT_NE(plan[0].pieces.at(0).source_shard / 2, plan[0].pieces.at(1).source_shard / 2);
}

TEST(ReshardPlanTest, RefusesShardingsThatDoNotFit) {
  const auto one = Sharding::SingleDevice(DeviceId(0), "");
  const auto two = *Sharding::Tiled(Devices(2), "", {{2}, {}});
  EXPECT_FALSE(PlanReshard({4, 4}, one, two, HostsOf(1)).ok());
  EXPECT_FALSE(PlanReshard({4, 4}, two, one, HostsOf(1)).ok());
  EXPECT_FALSE(PlanReshard({-1}, one, one, HostsOf(1)).ok());
  EXPECT_FALSE(PlanReshard({4}, Sharding(), one, HostsOf(1)).ok());
}

// Work is counted by calls of host_of and by pieces, not by time.
TEST(ReshardPlanTest, CostGrowsWithShardsAndPiecesOnly) {
  for (int n : {1, 10, 100, 1000, 10000}) {
    int64_t lookups = 0;
    auto host_of = [&](DeviceId d) {
      ++lookups;
      return HostId(static_cast<uint32_t>(d.v / 8));
    };
    auto count = [&](const Sharding& from, const Sharding& to) {
      lookups = 0;
      int64_t pieces = 0;
      const ReshardPlan plan = *PlanReshard({4 * n, 16}, from, to, host_of);
      for (const ReshardShard& shard : plan) pieces += shard.pieces.size();
      EXPECT_LE(lookups, 2 * n);
      return pieces;
    };
    const auto rows = *Sharding::Tiled(Devices(n), "", {{n, 1}, {}});
    const auto moved = *Sharding::Tiled(Devices(n, 8 * n), "", {{n, 1}, {}});
    EXPECT_EQ(count(rows, moved), n);
    EXPECT_EQ(count(Sharding::Replicated(Devices(n), ""), rows), n);
    EXPECT_EQ(count(rows, Sharding::SingleDevice(DeviceId(0), "")), n);
    if (n > 8) {
      EXPECT_EQ(count(Sharding::SingleDevice(DeviceId(0), ""), Sharding::Replicated(Devices(n, 8 * n), "")), (n + 7) / 8);
    }
  }
}

}  // namespace
}  // namespace pw::buffers
