#include "pathways/dispatch/plan_route.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dispatch/testing/test_topology.h"
#include "pathways/program/route.h"
#include "pathways/v1/route.pb.h"

namespace pw::dispatch {
namespace {

namespace v1 = ::pathways::v1;
using buffers::ArraySpec;
using buffers::Dims;
using buffers::DType;
using buffers::Sharding;
using program::Node;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// `tile_of_shard`: empty if each shard has a tile of its own.
std::shared_ptr<ArraySpec> Rows(DType dtype, Dims dims, std::vector<DeviceId> devices, std::vector<int32_t> tile_of_shard = {}) {
  auto spec = std::make_shared<ArraySpec>();
  spec->dtype = dtype;
  spec->dims = dims;
  buffers::Tiles tiles;
  tiles.counts.assign(dims.size(), 1);
  tiles.counts[0] = tile_of_shard.empty() ? static_cast<int64_t>(devices.size())
                                          : *std::max_element(tile_of_shard.begin(), tile_of_shard.end()) + 1;
  tiles.tile_of_shard = std::move(tile_of_shard);
  spec->sharding = *Sharding::Tiled(std::move(devices), "", std::move(tiles));
  return spec;
}

// Hosts of two devices. 8 rows on those of host 0; two groups of experts: one expert on each device of host 1, twice of them each, and two on
// device 5, of host 2.
Node Out() {
  Node node;
  node.kind = program::NodeKind::kRoute;
  node.groups = 2;
  node.takes = {Rows(DType::kF32, {8, 4}, DeviceRange(0, 2)), Rows(DType::kS32, {8}, DeviceRange(0, 2))};
  const auto first = DeviceRange(2, 2), second = DeviceRange(5, 1);
  node.outputs = {Rows(DType::kF32, {4, 3, 4}, first), Rows(DType::kF32, {2, 3, 4}, second), Rows(DType::kS32, {4, 3}, first),
                  Rows(DType::kS32, {2, 3}, second),   Rows(DType::kS32, {4}, first),        Rows(DType::kS32, {2}, second)};
  return node;
}

template <class Config>
Config ConfigOf(const RoutePlan& plan, uint32_t node, uint32_t host) {
  Config config;
  EXPECT_TRUE(config.ParseFromString(plan.graph->node(dataflow::NodeId(node)).config_of(HostId(host))));
  return config;
}

TEST(PlanRoute, SendersHaveTheRowsOfTheirDevicesAndKnowWhereEveryKeyGoes) {
  const auto plan = PlanRoute(Out(), "node 3", TestTopology(3, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const dataflow::Graph& graph = *plan->graph;
  EXPECT_EQ(graph.host_loss(), dataflow::HostLoss::kFailsShards);
  EXPECT_EQ(graph.edge(dataflow::EdgeId(0)).kind, dataflow::EdgeKind::kSparse);
  EXPECT_EQ(graph.node(dataflow::NodeId(0)).op, program::kRouteSend);
  EXPECT_EQ(graph.source(dataflow::EdgeId(0)).num_shards(), 1u);
  EXPECT_EQ(graph.destination(dataflow::EdgeId(0)).num_shards(), 2u);
  const auto sender = ConfigOf<v1::RouteSender>(*plan, 0, 0);
  EXPECT_EQ(sender.row_bytes(), 16);
  EXPECT_EQ(sender.capacity(), 3);
  ASSERT_EQ(sender.pieces_size(), 2);
  EXPECT_EQ(sender.pieces(1).shard(), 1);
  EXPECT_EQ(sender.pieces(1).first(), 4);
  EXPECT_EQ(sender.pieces(1).count(), 4);
  EXPECT_EQ(sender.pieces(1).keys_input(), 1u);
  ASSERT_EQ(sender.targets_size(), 3);
  EXPECT_EQ(sender.targets(1).first(), 2);
  EXPECT_THAT(sender.targets(1).receivers(), ElementsAre(0));
  EXPECT_EQ(sender.targets(2).first(), 4);
  EXPECT_EQ(sender.targets(2).count(), 2);
  EXPECT_THAT(sender.targets(2).receivers(), ElementsAre(1));
}

TEST(PlanRoute, ReceiversMakeTheShardsOfTheirDevices) {
  const auto plan = PlanRoute(Out(), "node 3", TestTopology(3, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto receiver = ConfigOf<v1::RouteReceiver>(*plan, 1, 1);
  EXPECT_THAT(receiver.row_dims(), ElementsAre(4));
  EXPECT_EQ(receiver.source_rows(), 8);
  ASSERT_EQ(receiver.tiles_size(), 2);
  EXPECT_EQ(receiver.tiles(1).first(), 2);
  EXPECT_EQ(receiver.tiles(1).count(), 2);
  ASSERT_EQ(receiver.tiles(1).outputs_size(), 3);
  EXPECT_EQ(receiver.tiles(1).outputs(1).output(), 2u);
  EXPECT_EQ(receiver.tiles(1).outputs(1).what(), v1::RouteReceiver::SLOTS);
  EXPECT_EQ(receiver.tiles(1).outputs(1).shard(), 1);
  EXPECT_EQ(receiver.tiles(1).outputs(1).local_device(), 1);
  const auto other = ConfigOf<v1::RouteReceiver>(*plan, 1, 2);
  ASSERT_EQ(other.tiles_size(), 1);
  EXPECT_EQ(other.tiles(0).first(), 4);
  EXPECT_EQ(other.tiles(0).outputs(0).output(), 1u);
  EXPECT_EQ(other.tiles(0).outputs(0).local_device(), 1);
  ASSERT_EQ(plan->hosts.size(), 3u);
  EXPECT_TRUE(plan->hosts[0].sends);
  EXPECT_THAT(plan->hosts[0].outputs, IsEmpty());
  EXPECT_FALSE(plan->hosts[1].sends);
  EXPECT_THAT(plan->hosts[1].outputs, ElementsAre(0, 2, 4));
  EXPECT_THAT(plan->hosts[2].outputs, ElementsAre(1, 3, 5));
}

TEST(PlanRoute, TheWayBackGoesFromSlotsToRows) {
  const Node out = Out();
  Node node;
  node.kind = program::NodeKind::kRoute;
  node.back = true;
  node.groups = 2;
  node.takes.assign(out.outputs.begin(), out.outputs.begin() + 4);
  node.outputs = {out.takes[0]};
  const auto plan = PlanRoute(node, "node 4", TestTopology(3, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto second = ConfigOf<v1::RouteSender>(*plan, 0, 2);
  EXPECT_TRUE(second.back());
  ASSERT_EQ(second.pieces_size(), 1);
  EXPECT_EQ(second.pieces(0).rows_input(), 1u);
  EXPECT_EQ(second.pieces(0).keys_input(), 3u);
  EXPECT_EQ(second.pieces(0).first(), 4 * 3) << "after the slots of the first group";
  EXPECT_EQ(second.pieces(0).count(), 6);
  ASSERT_EQ(second.targets_size(), 2);
  EXPECT_EQ(second.targets(1).first(), 4);
  const auto receiver = ConfigOf<v1::RouteReceiver>(*plan, 1, 0);
  EXPECT_EQ(receiver.source_rows(), 6 * 3);
  ASSERT_EQ(receiver.tiles_size(), 2);
  EXPECT_EQ(receiver.tiles(1).first(), 4);
  EXPECT_EQ(receiver.tiles(1).outputs(0).what(), v1::RouteReceiver::ROWS);
}

TEST(PlanRoute, OfEqualSourcesOneSendsAndEqualDestinationsAllReceive) {
  Node node = Out();
  node.groups = 1;
  node.takes = {Rows(DType::kF32, {8, 4}, DeviceRange(0, 4), {0, 1, 0, 1}),
                Rows(DType::kS32, {8}, DeviceRange(0, 4), {0, 1, 0, 1})};
  node.outputs = {Rows(DType::kF32, {1, 8, 4}, DeviceRange(3, 3), {0, 0, 0})};
  const auto plan = PlanRoute(node, "node 3", TestTopology(3, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->graph->source(dataflow::EdgeId(0)).num_shards(), 1u);
  const auto sender = ConfigOf<v1::RouteSender>(*plan, 0, 0);
  EXPECT_EQ(sender.pieces_size(), 2);
  ASSERT_EQ(sender.targets_size(), 1);
  EXPECT_THAT(sender.targets(0).receivers(), ElementsAre(0, 1)) << "once for each host";
  EXPECT_EQ(ConfigOf<v1::RouteReceiver>(*plan, 1, 2).tiles(0).outputs_size(), 2);
}

}  // namespace
}  // namespace pw::dispatch
