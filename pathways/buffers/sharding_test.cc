#include "pathways/buffers/sharding.h"

#include <limits>
#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/testing/devices.h"
#include "pathways/buffers/testing/random_arrays.h"

namespace pw::buffers {
namespace {

using testing::HasSubstr;

TEST(ShardingTest, CutsAsXlaDoes) {
  auto s = *Sharding::Tiled(Devices(4), "", {{4}, {}});
  EXPECT_EQ(*s.ShardRegion({10}, 0), (Region{{0}, {3}}));
  EXPECT_EQ(*s.ShardRegion({10}, 3), (Region{{9}, {1}}));
  EXPECT_EQ(*s.ShardRegion({5}, 2), (Region{{4}, {1}}));
  EXPECT_TRUE(s.ShardRegion({5}, 3)->empty());
  EXPECT_TRUE(s.ShardRegion({0}, 1)->empty());
}

TEST(ShardingTest, TileTablesPermuteAndReplicate) {
  auto s = *Sharding::Tiled(Devices(4), "", {{1, 2}, {1, 1, 0, 0}});
  EXPECT_EQ(*s.ShardRegion({2, 6}, 0), (Region{{0, 3}, {2, 3}}));
  EXPECT_EQ(*s.ShardRegion({2, 6}, 3), (Region{{0, 0}, {2, 3}}));
  EXPECT_FALSE(s.fully_replicated());
}

TEST(ShardingTest, EqualShardingsLookEqualHoweverTheyAreWritten) {
  EXPECT_EQ(*Sharding::Tiled(Devices(2), "", {{2}, {0, 1}}), *Sharding::Tiled(Devices(2), "", {{2}, {}}));
  EXPECT_EQ(*Sharding::Tiled(Devices(2), "", {{1, 1}, {0, 0}}), Sharding::Replicated(Devices(2), ""));
  EXPECT_EQ(*Sharding::Tiled(Devices(3), "", {}), Sharding::Replicated(Devices(3), ""));
  EXPECT_NE(Sharding::SingleDevice(DeviceId(1), ""), Sharding::SingleDevice(DeviceId(1), "pinned_host"));
  EXPECT_NE(Sharding::SingleDevice(DeviceId(1), ""), Sharding::SingleDevice(DeviceId(2), ""));
  EXPECT_EQ(Sharding::SingleDevice(DeviceId(1), ""), Sharding::SingleDevice(DeviceId(1), "").WithWireForm({"type", "data"}));
}

TEST(ShardingTest, KeepsTheWireFormUntilItWouldLie) {
  auto s = Sharding::SingleDevice(DeviceId(1), "device").WithWireForm({"type", "data"});
  EXPECT_EQ(s.wire_form()->type_name, "type");
  EXPECT_EQ(s.WithDevices({DeviceId(2)}).wire_form(), nullptr);
  EXPECT_EQ(s.WithDevices({DeviceId(2)}), Sharding::SingleDevice(DeviceId(2), "device"));
  EXPECT_EQ(s.WithMemoryKind("x").wire_form(), nullptr);
}

TEST(ShardingTest, RefusesWhatBreaksAnInvariant) {
  const int64_t big = int64_t{1} << 62;
  const std::vector<Tiles> bad = {{{0}, {}}, {{-1}, {}},       {{2}, {0, 2}},   {{2}, {-1, 0}},   {{2}, {0, 0}}, {{2}, {0, 1, 1}},
                                  {{3}, {}}, {{big, big}, {}}, {{big}, {0, 0}}, {{1, 3}, {0, 1}}, {{}, {0, 1}},  {{}, {0}}};
  for (const Tiles& tiles : bad) {
    EXPECT_EQ(Sharding::Tiled(Devices(2), "", tiles).status().code(), absl::StatusCode::kInvalidArgument)
        << testing::PrintToString(tiles.counts);
  }
}

TEST(ShardingTest, RefusesShapesThatDoNotFit) {
  auto s = *Sharding::Tiled(Devices(2), "", {{2}, {}});
  EXPECT_THAT(std::string(s.ShardRegion({4, 4}, 0).status().message()),
              HasSubstr("a sharding of rank 1 does not fit an array of shape [4,4]"));
  EXPECT_FALSE(s.ShardRegion({-4}, 0).ok());
  EXPECT_FALSE(s.ShardRegion({4}, 2).ok());
  EXPECT_FALSE(s.ShardRegion({4}, -1).ok());
  EXPECT_FALSE(Sharding().ShardRegion({4}, 0).ok());
}

TEST(ShardingTest, HugeDimensionsDoNotOverflow) {
  const int64_t max = std::numeric_limits<int64_t>::max();
  auto s = *Sharding::Tiled(Devices(3), "", {{3}, {}});
  const Region last = *s.ShardRegion({max}, 2);
  EXPECT_EQ(last.start[0] + last.size[0], max);
  EXPECT_EQ((Region{{0, 0}, {max, 2}}).elements(), max);
  EXPECT_EQ((Region{{0, 0}, {max, 0}}).elements(), 0);
}

TEST(ShardingTest, TilesPartitionTheArray) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const Dims dims = RandomDims(rng);
    const Sharding s = RandomSharding(rng, dims.size(), 0);
    int64_t total = 0;
    std::vector<Region> tiles;
    for (int64_t t = 0; t < s.num_tiles(); ++t) {
      tiles.push_back(s.TileRegion(dims, t));
      total += tiles.back().elements();
      for (int64_t u = 0; u < t; ++u) ASSERT_TRUE(dims.empty() || Intersect(tiles[t], tiles[u]).empty());
    }
    ASSERT_EQ(total, (Region{{}, dims}).elements());
    std::set<int64_t> held;
    for (int i = 0; i < s.num_shards(); ++i) {
      held.insert(s.TileOfShard(i));
      ASSERT_EQ(*s.ShardRegion(dims, i), tiles[s.TileOfShard(i)]);
    }
    ASSERT_EQ(held.size(), static_cast<size_t>(s.num_tiles()));  // SH-2
  }
}

TEST(RegionTest, IntersectionIsTheCommonPartOrNothing) {
  EXPECT_EQ(Intersect({{0, 0}, {4, 4}}, {{2, 3}, {4, 4}}), (Region{{2, 3}, {2, 1}}));
  EXPECT_EQ(Intersect({{0, 0}, {4, 4}}, {{2, 4}, {4, 4}}), (Region{{0, 0}, {0, 0}}));
  EXPECT_EQ(Intersect({{}, {}}, {{}, {}}).elements(), 1);
}

TEST(ArraySpecTest, CountsBytesPerShard) {
  ArraySpec spec{DType::kF32, {8, 128}, *Sharding::Tiled(Devices(4), "", {{4, 1}, {}}), ""};
  EXPECT_EQ(*ShardHostBytes(spec, 0), 2 * 128 * 4);
  EXPECT_EQ(ToString(spec), "f32[8,128] over 4 devices");
  spec.dtype = DType::kS4;
  EXPECT_EQ(*ShardHostBytes(spec, 3), 2 * 128);
  spec.dtype = DType::kToken;
  EXPECT_EQ(*ShardHostBytes(spec, 3), 0);
  EXPECT_TRUE(Validate(spec).ok());
  EXPECT_EQ(ToString(ArraySpec{DType::kS32, {}, Sharding::SingleDevice(DeviceId(0), ""), ""}), "s32[] over 1 device");
}

TEST(ArraySpecTest, OfManyDevicesAMessageShowsTheFirst) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < 8; ++i) devices.push_back(DeviceId(10 + i));
  EXPECT_EQ(DeviceNumbers(absl::MakeSpan(devices).subspan(0, 1)), "10");
  EXPECT_EQ(DeviceNumbers(devices), "10,11,12,13,14,15,16,17");
  devices.push_back(DeviceId(18));
  EXPECT_EQ(DeviceNumbers(devices), "10,11,12,13,14,15,16,17,...");
}

TEST(ArraySpecTest, RefusesSizesThatOverflow) {
  const int64_t big = int64_t{1} << 31;
  ArraySpec spec{DType::kF64, {big, big}, Sharding::SingleDevice(DeviceId(0), ""), ""};
  EXPECT_EQ(ShardHostBytes(spec, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Validate(spec).code(), absl::StatusCode::kInvalidArgument);
  spec.dims = {big, big, big, 0};  // empty, but its strides overflow
  EXPECT_FALSE(Validate(spec).ok());
  spec.dims = {4, -1};
  EXPECT_FALSE(Validate(spec).ok());
  spec.dims = {4, 0};
  EXPECT_TRUE(Validate(spec).ok());
  EXPECT_EQ(*ShardHostBytes(spec, 0), 0);
  spec.dtype = DType::kInvalid;
  EXPECT_FALSE(Validate(spec).ok());
}

}  // namespace
}  // namespace pw::buffers
