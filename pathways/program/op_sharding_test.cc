#include "pathways/program/op_sharding.h"

#include <numeric>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace pw::program {
namespace {

std::vector<DeviceId> Devices(int n, int first = 10) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < n; ++i) devices.push_back(DeviceId(first + i));
  return devices;
}

absl::StatusOr<buffers::Sharding> Parse(const std::string& text, int devices, int rank) {
  xla::OpSharding proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return OpShardingToSharding(proto.SerializeAsString(), Devices(devices), "device", rank);
}

std::vector<int64_t> TilesOf(const buffers::Sharding& s) {
  std::vector<int64_t> tiles;
  for (int i = 0; i < s.num_shards(); ++i) tiles.push_back(s.TileOfShard(i));
  return tiles;
}

using Table = std::vector<int64_t>;

TEST(OpShardingTest, EmptyBytesMeanReplicated) {
  auto s = OpShardingToSharding(std::string_view(), Devices(4), "device", 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(s->fully_replicated());
  EXPECT_EQ(s->memory_kind(), "device");
}

TEST(OpShardingTest, ListsOfDevices) {
  auto s = Parse("type: OTHER tile_assignment_dimensions: [2, 2] tile_assignment_devices: [0, 2, 1, 3]", 4, 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->tiles().counts, (buffers::Dims{2, 2}));
  EXPECT_EQ(TilesOf(*s), (Table{0, 2, 1, 3}));
}

TEST(OpShardingTest, ReplicatesOnTheLastTileDim) {
  auto s = Parse(
      "type: OTHER tile_assignment_dimensions: [2, 1, 2] tile_assignment_devices: [0, 1, 2, 3] replicate_on_last_tile_dim: true",
      4, 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->tiles().counts, (buffers::Dims{2, 1}));
  EXPECT_EQ(TilesOf(*s), (Table{0, 0, 1, 1}));
}

TEST(OpShardingTest, LastTileDimsMayBeSeveral) {
  auto s = Parse("type: OTHER tile_assignment_dimensions: [2, 2, 2] last_tile_dims: [MANUAL, REPLICATED] iota_reshape_dims: [8]",
                 8, 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(OpShardingTest, TransposedIota) {
  // reshape(0..7, [4,2]) transposed: 0 2 4 6 1 3 5 7; P(None, 'x') on a (4, 2) mesh's second axis with the first replicated.
  auto s = Parse(
      "type: OTHER tile_assignment_dimensions: [1, 2, 4] iota_reshape_dims: [4, 2] iota_transpose_perm: [1, 0] "
      "replicate_on_last_tile_dim: true",
      8, 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(OpShardingTest, IotaOfThreeDims) {
  auto values =
      Parse("type: OTHER tile_assignment_dimensions: [8] iota_reshape_dims: [2, 2, 2] iota_transpose_perm: [2, 0, 1]", 8, 1);
  ASSERT_TRUE(values.ok()) << values.status();
  // order of devices: transpose(iota(2,2,2), (2,0,1)) = 0 2 4 6 1 3 5 7
  EXPECT_EQ(TilesOf(*values), (Table{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(OpShardingTest, WholeValues) {
  for (const char* type : {"REPLICATED", "MANUAL", "UNKNOWN", "UNREDUCED"}) {
    auto s = Parse(std::string("type: ") + type, 4, 3);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_TRUE(s->fully_replicated());
  }
  EXPECT_TRUE(Parse("type: MAXIMAL tile_assignment_dimensions: 1 tile_assignment_devices: 0", 1, 3).ok());
  EXPECT_FALSE(Parse("type: MAXIMAL tile_assignment_dimensions: 1 tile_assignment_devices: 0", 2, 3).ok());
}

TEST(OpShardingTest, TuplesOfOneAreUnwrapped) {
  EXPECT_TRUE(Parse("type: TUPLE tuple_shardings { type: REPLICATED }", 2, 1).ok());
  EXPECT_FALSE(Parse("type: TUPLE tuple_shardings { type: REPLICATED } tuple_shardings { type: REPLICATED }", 2, 1).ok());
  EXPECT_FALSE(Parse("type: TUPLE tuple_shardings { type: TUPLE }", 2, 1).ok());
}

TEST(OpShardingTest, EveryReplicaHoldsTheWhole) {
  auto s = Parse("type: OTHER tile_assignment_dimensions: [2] tile_assignment_devices: [1, 0]", 4, 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{1, 0, 1, 0}));
}

TEST(OpShardingTest, RefusesWhatIsNoSharding) {
  for (const char* text : {
           "type: OTHER tile_assignment_dimensions: [2, 2] tile_assignment_devices: [0, 1, 2, 3]",                    // rank
           "type: OTHER tile_assignment_dimensions: [3] tile_assignment_devices: [0, 1, 2]",                          // 4 devices
           "type: OTHER tile_assignment_dimensions: [4] tile_assignment_devices: [0, 1, 2]",                          // too few
           "type: OTHER tile_assignment_dimensions: [4] tile_assignment_devices: [0, 1, 2, 2]",                       // twice
           "type: OTHER tile_assignment_dimensions: [4] tile_assignment_devices: [0, 1, 2, -1]",                      // negative
           "type: OTHER tile_assignment_dimensions: [4] tile_assignment_devices: [0, 1, 2, 4]",                       // beyond
           "type: OTHER tile_assignment_dimensions: [0] tile_assignment_devices: []",                                 // zero
           "type: OTHER tile_assignment_dimensions: [-4] iota_reshape_dims: [-4]",                                    // negative
           "type: OTHER tile_assignment_dimensions: [9223372036854775807] iota_reshape_dims: [9223372036854775807]",  // overflow
           "type: OTHER tile_assignment_dimensions: [4] iota_reshape_dims: [2, 3] iota_transpose_perm: [1, 0]",       // 6 of 4
           "type: OTHER tile_assignment_dimensions: [4] iota_reshape_dims: [2, 2] iota_transpose_perm: [1, 1]",  // no permutation
           "type: OTHER tile_assignment_dimensions: [4] iota_reshape_dims: [2, 2] iota_transpose_perm: [0]",     // short
           "type: OTHER",
       }) {
    EXPECT_EQ(Parse(text, 4, 1).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(OpShardingToSharding(std::string_view("\xff\xff"), Devices(2), "", 1).ok());
  EXPECT_FALSE(OpShardingToSharding(std::string_view(), {}, "", 1).ok());
}

TEST(OpShardingTest, NamedShardings) {
  const std::string mesh = "named_sharding { mesh { axes { name: 'a' size: 2 } axes { name: 'b' size: 4 } } ";
  auto s = Parse(mesh + "dim_shardings { axes { mesh_axis_index: 1 } } dim_shardings { } }", 8, 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->tiles().counts, (buffers::Dims{4, 1}));
  EXPECT_EQ(TilesOf(*s), (Table{0, 1, 2, 3, 0, 1, 2, 3}));
  s = Parse(mesh + "dim_shardings { axes { mesh_axis_index: 1 } } dim_shardings { axes { mesh_axis_index: 0 } } }", 8, 2);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{0, 2, 4, 6, 1, 3, 5, 7}));
  s = Parse(mesh + "dim_shardings { axes { mesh_axis_index: 1 sub_axis_info { pre_size: 1 size: 2 } } } }", 8, 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{0, 0, 1, 1, 0, 0, 1, 1}));
  s = Parse("named_sharding { mesh { axes { size: 4 } device_ids: [3, 2, 1, 0] } dim_shardings { axes { } } }", 4, 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(TilesOf(*s), (Table{3, 2, 1, 0}));
  EXPECT_TRUE(Parse("named_sharding { mesh { } }", 4, 1)->fully_replicated());
  EXPECT_FALSE(Parse(mesh + "dim_shardings { axes { mesh_axis_index: 2 } } }", 8, 1).ok());
  EXPECT_FALSE(Parse(mesh + "dim_shardings { axes { mesh_axis_index: 1 } axes { mesh_axis_index: 1 } } }", 8, 1).ok());
  EXPECT_FALSE(Parse(mesh + "dim_shardings { axes { mesh_axis_index: 1 sub_axis_info { pre_size: 0 size: 3 } } } }", 8, 1).ok());
  EXPECT_FALSE(Parse(mesh + "}", 4, 1).ok());
}

// A client may write any number of dimensions and axes of size 1; the work per device must not grow with them.
TEST(OpShardingTest, DimensionsAndAxesOfOneCostNothing) {
  constexpr int kMany = 1 << 18;
  xla::OpSharding iota;
  iota.set_type(xla::OpSharding::OTHER);
  iota.add_tile_assignment_dimensions(kMany);
  iota.add_iota_reshape_dims(2);
  for (int i = 0; i < kMany; ++i) iota.add_iota_reshape_dims(1);
  iota.add_iota_reshape_dims(kMany / 2);
  auto s = OpShardingToSharding(iota, Devices(kMany), "", 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->num_tiles(), kMany);
  EXPECT_EQ(s->TileOfShard(kMany - 1), kMany - 1);

  xla::OpSharding named;
  auto& mesh = *named.mutable_named_sharding()->mutable_mesh();
  mesh.add_axes()->set_size(1);
  mesh.add_axes()->set_size(kMany);
  auto& dim = *named.mutable_named_sharding()->add_dim_shardings();
  for (int i = 0; i < kMany; ++i) dim.add_axes()->set_mesh_axis_index(0);
  dim.add_axes()->set_mesh_axis_index(1);
  s = OpShardingToSharding(named, Devices(kMany), "", 1);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->num_tiles(), kMany);
}

TEST(OpShardingTest, TheWayBackIsTheSame) {
  for (const char* text :
       {"type: REPLICATED", "type: OTHER tile_assignment_dimensions: [2, 2] tile_assignment_devices: [3, 2, 1, 0]",
        "type: OTHER tile_assignment_dimensions: [1, 2, 2] tile_assignment_devices: [3, 0, 1, 2] replicate_on_last_tile_dim: "
        "true"}) {
    auto s = Parse(text, 4, 2);
    ASSERT_TRUE(s.ok()) << s.status();
    auto again = OpShardingToSharding(ShardingToOpSharding(*s), s->devices(), "device", 2);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(*again == *s) << text;
  }
}

}  // namespace
}  // namespace pw::program
