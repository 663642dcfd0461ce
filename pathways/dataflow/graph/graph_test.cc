#include "pathways/dataflow/graph/graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/testing/placements.h"

namespace pw::dataflow {
namespace {

absl::Status Connect(EdgeKind kind, PlacementRef from, PlacementRef to) {
  return Graph::Create({{"a", "", "", std::move(from)}, {"b", "", "", std::move(to)}}, {{NodeId(0), NodeId(1), kind}}).status();
}

TEST(Graph, AChainOfTwoComputationsIsFourNodesHoweverManyShards) {
  for (uint32_t shards : {1u, 8u, 2048u}) {
    const PlacementRef devices = Over(shards < 8 ? 1 : shards / 8, std::min(shards, 8u));
    const auto graph =
        Graph::Create({{"Arg", "", "", devices}, {"A", "", "", devices}, {"B", "", "", devices}, {"Result", "", "", devices}},
                      {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(3)}});
    ASSERT_TRUE(graph.ok());
    EXPECT_EQ((*graph)->nodes().size(), 4u);
    EXPECT_EQ((*graph)->edges().size(), 3u);
    EXPECT_EQ((*graph)->nodes()[1].placement->num_shards(), shards);
    EXPECT_EQ((*graph)->nodes()[1].placement->blocks().size(), 1u);
  }
}

TEST(Graph, ShardCountsMustFitTheEdge) {
  EXPECT_TRUE(Connect(EdgeKind::kOneToOne, Over(2, 4), Over(4, 2)).ok());
  EXPECT_FALSE(Connect(EdgeKind::kOneToOne, Over(2, 4), Over(2, 2)).ok());
  EXPECT_TRUE(Connect(EdgeKind::kScatter, Over(1, 1), Over(4, 2)).ok());
  EXPECT_FALSE(Connect(EdgeKind::kScatter, Over(1, 2), Over(4, 2)).ok());
  EXPECT_TRUE(Connect(EdgeKind::kGather, Over(4, 2), Over(1, 1)).ok());
  EXPECT_FALSE(Connect(EdgeKind::kGather, Over(4, 2), Over(1, 2)).ok());
  EXPECT_TRUE(Connect(EdgeKind::kAllToAll, Over(4, 2), Over(3, 1)).ok());
  EXPECT_TRUE(Connect(EdgeKind::kSparse, Over(4, 2), Over(3, 1)).ok());
}

TEST(Graph, ASingleEdgeIsNotSparseAndHasABoundedNumberOfPairs) {
  const auto single = [](EdgeKind kind, PlacementRef from, PlacementRef to) {
    return Graph::Create({{"a", "", "", std::move(from)}, {"b", "", "", std::move(to)}},
                         {{NodeId(0), NodeId(1), kind, false, true}})
        .status();
  };
  EXPECT_TRUE(single(EdgeKind::kAllToAll, Over(64, 64), Over(64, 64)).ok());
  EXPECT_FALSE(single(EdgeKind::kAllToAll, Over(64, 64), Over(64, 128)).ok());
  EXPECT_TRUE(single(EdgeKind::kOneToOne, Over(64, 128), Over(64, 128)).ok());
  EXPECT_EQ(single(EdgeKind::kSparse, Over(2, 1), Over(3, 1)).message(),
            "the sparse edge from 'a' to 'b' connects 2 shards with 3; a sparse edge cannot be single");
}

TEST(Graph, SaysWhichEdgeIsWrongAndWhy) {
  EXPECT_EQ(Connect(EdgeKind::kGather, Over(4, 2), Over(1, 2)).message(),
            "the gather edge from 'a' to 'b' connects 8 shards with 2; its destination must have one");
}

TEST(Graph, CyclesAndNodesThatDoNotExistAreRefused) {
  const PlacementRef one = Over(1, 1);
  const std::vector<Node> nodes = {{"a", "", "", one}, {"b", "", "", one}, {"c", "", "", one}};
  EXPECT_EQ(Graph::Create(nodes, {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(1)}}).status().message(),
            "node 'b' is on a cycle, or behind one");
  EXPECT_FALSE(Graph::Create(nodes, {{NodeId(1), NodeId(1)}}).ok());
  EXPECT_FALSE(Graph::Create(nodes, {{NodeId(0), NodeId(3)}}).ok());
  EXPECT_FALSE(Graph::Create({}, {}).ok());
  EXPECT_FALSE(Graph::Create({{"a", "", "", nullptr}}, {}).ok());
}

TEST(Graph, TheLossOfAHostConcernsSomebodyIfThereAreEdges) {
  const std::vector<Node> nodes = {{"a", "", "", Over(1, 1)}, {"b", "", "", Over(1, 1)}};
  EXPECT_TRUE(Graph::Create(nodes, {}, HostLoss::kConcernsNobody).ok());
  EXPECT_EQ(Graph::Create(nodes, {{NodeId(0), NodeId(1)}}, HostLoss::kConcernsNobody).status().message(),
            "a graph with 1 edges has shards that wait for others, so the loss of a host concerns these");
}

}  // namespace
}  // namespace pw::dataflow
