#include "pathways/dataflow/graph/graph_part.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/host_plan.h"
#include "pathways/dataflow/testing/placements.h"
#include "pathways/dataflow/testing/random_graphs.h"

namespace pw::dataflow {
namespace {

constexpr uint32_t kHosts = 5;

// The whole graph, in the form of a part.
std::shared_ptr<const GraphPart> Whole(const Graph& graph) {
  GraphPart::Contents all{{}, {}, static_cast<uint32_t>(graph.edges().size()), graph.hosts(), graph.host_loss()};
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) all.nodes.push_back({NodeId(n), graph.nodes()[n]});
  for (uint32_t e = 0; e < graph.edges().size(); ++e) all.edges.push_back({EdgeId(e), graph.edges()[e]});
  auto whole = GraphPart::Create(std::move(all));
  EXPECT_TRUE(whole.ok()) << whole.status();
  return *whole;
}

void ExpectSamePlan(const EdgePlan& a, const EdgePlan& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.single, b.single);
  EXPECT_EQ(a.outlives_hosts, b.outlives_hosts);
  EXPECT_EQ(*a.from, *b.from);
  EXPECT_EQ(*a.to, *b.to);
  EXPECT_EQ(a.sources, b.sources);
  EXPECT_EQ(a.destinations, b.destinations);
  EXPECT_EQ(a.direct, b.direct);
  EXPECT_EQ(a.report_to, b.report_to);
  EXPECT_EQ(a.reporters, b.reporters);
  EXPECT_EQ(a.up_parent, b.up_parent);
  EXPECT_EQ(a.up_children, b.up_children);
  EXPECT_EQ(a.down_parent, b.down_parent);
  EXPECT_EQ(a.down_children, b.down_children);
}

// HP-2. Each part goes over the wire.
TEST(GraphPart, ThePlanOfAPartIsThatOfTheWholeGraph) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto graph = random.OneIn(8) ? RandomOrders(random, kHosts, 8, 12, "op") : RandomGraph(random, kHosts, 8, 12, "op");
    const auto whole = Whole(*graph);
    const ProgressKnobs knobs{.fan_in = 2 + random.Below(3), .direct_pairs = 1 + random.Below(20)};
    for (uint32_t i = 0; i < graph->hosts().size(); ++i) {
      const HostId self = graph->hosts().At(i);
      const auto part = ParseGraphPart(ToProto(*PartOf(*graph, self)).SerializeAsString());
      ASSERT_TRUE(part.ok()) << part.status();
      const auto is = HostPlan::Create(*part, HostId(0), self, knobs, 1000),
                 wanted = HostPlan::Create(whole, HostId(0), self, knobs, 1000);
      ASSERT_TRUE(is.ok() && wanted.ok());
      EXPECT_EQ((*is)->hosts(), graph->hosts());
      EXPECT_EQ((*is)->outlives_hosts(), (*wanted)->outlives_hosts());
      EXPECT_EQ((*is)->reports_ends(), (*wanted)->reports_ends());
      EXPECT_EQ((*is)->end_edge(), (*wanted)->end_edge());
      ExpectSamePlan((*is)->end(), (*wanted)->end());
      ASSERT_EQ((*is)->nodes().size(), (*wanted)->nodes().size());
      for (size_t n = 0; n < (*is)->nodes().size(); ++n) {
        const NodeId id = (*wanted)->nodes()[n].id;
        EXPECT_EQ((*is)->nodes()[n].id, id);
        EXPECT_EQ((*is)->nodes()[n].shards, (*wanted)->nodes()[n].shards);
        EXPECT_EQ((*is)->SlotOf(id), n);
        EXPECT_EQ((*part)->node(id).op, "op");
        EXPECT_EQ((*part)->inputs(id), graph->inputs(id));
        EXPECT_EQ((*part)->outputs(id), graph->outputs(id));
      }
      ASSERT_EQ((*is)->edges().size(), (*wanted)->edges().size());
      for (size_t e = 0; e < (*is)->edges().size(); ++e) {
        EXPECT_EQ((*is)->edges()[e].id, (*wanted)->edges()[e].id);
        EXPECT_EQ((*is)->edges()[e].edge->critical, (*wanted)->edges()[e].edge->critical);
        ExpectSamePlan((*is)->edges()[e].plan, (*wanted)->edges()[e].plan);
      }
      for (uint32_t other = 0; other < kHosts; ++other)
        EXPECT_EQ((*is)->TalksTo(HostId(other)), (*wanted)->TalksTo(HostId(other)));
    }
  }
}

// A chain whose nodes take turns on the hosts.
std::shared_ptr<const Graph> TurnsOn(uint32_t hosts, uint32_t nodes) {
  std::vector<Node> chain;
  std::vector<Edge> edges;
  std::vector<PlacementRef> places;
  for (uint32_t h = 0; h < hosts; ++h) places.push_back(std::make_shared<const Placement>(Placement::OnHost(HostId(h))));
  for (uint32_t n = 0; n < nodes; ++n) {
    chain.push_back({"node", "compute", std::string(40, 'x'), places[n % hosts]});
    if (n > 0) edges.push_back({NodeId(n - 1), NodeId(n)});
  }
  return *Graph::Create(std::move(chain), std::move(edges));
}

TEST(GraphPart, HasNothingOfNodesWithoutATieToTheHost) {
  const auto part = PartOf(*TurnsOn(4, 40), HostId(2));
  EXPECT_EQ(part->nodes().size(), 30u);  // its 10, the 10 before these and the 10 after them
  EXPECT_EQ(part->edges().size(), 20u);
  EXPECT_EQ(part->all_edges(), 39u);
  EXPECT_EQ(part->PositionOf(NodeId(0)), part->nodes().size());
  EXPECT_EQ(part->PositionOf(EdgeId(0)), part->edges().size());
  for (const auto& [id, node] : part->nodes()) EXPECT_EQ(node.config.empty(), id.v % 4 != 2) << id.v;
  EXPECT_TRUE(PartOf(*TurnsOn(4, 40), HostId(7))->nodes().empty());
}

TEST(GraphPart, HasTheConfigOfItsHost) {
  const auto config_of = [](HostId host) { return "of " + std::to_string(host.v); };
  const auto graph =
      *Graph::Create({{"a", "op", "of all", Over(3, 1), config_of}, {"b", "op", "of all", Over(3, 1)}}, {{NodeId(0), NodeId(1)}});
  for (uint32_t host = 0; host < 3; ++host) {
    const auto part = ParseGraphPart(ToProto(*PartOf(*graph, HostId(host))).SerializeAsString());
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ((*part)->node(NodeId(0)).config, config_of(HostId(host)));
    EXPECT_EQ((*part)->node(NodeId(1)).config, "of all");
  }
}

// So an install to all hosts costs as many bytes for few large parts as for many small ones, and not hosts times the graph.
TEST(GraphPart, TheBytesOfAHostDependOnItsNodesAlone) {
  const auto bytes = [](uint32_t hosts) { return ToProto(*PartOf(*TurnsOn(hosts, 16 * hosts), HostId(1))).ByteSizeLong(); };
  EXPECT_LE(bytes(64), bytes(4) + 64);
}

TEST(GraphPart, AUniformGraphIsAsSmallFor2048ShardsAsFor8) {
  auto bytes = [](uint32_t hosts) {
    const auto where = std::make_shared<const Placement>(Placement::Uniform(HostId(0), hosts, 8));
    return ToProto(*PartOf(**Graph::Create({{"Arg", "", "", where}, {"A", "", "", where}}, {{NodeId(0), NodeId(1)}}), HostId(0)))
        .ByteSizeLong();
  };
  EXPECT_LE(bytes(256), bytes(1) + 2);
}

TEST(GraphPart, ComesBackAsItWas) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const std::string bytes = ToProto(*PartOf(*RandomGraph(random, kHosts, 8, 12, "op"), HostId(0))).SerializeAsString();
    const auto again = ParseGraphPart(bytes);
    if (!again.ok()) continue;  // host 0 has no shards
    ASSERT_EQ(ToProto(**again).SerializeAsString(), bytes);
  }
}

TEST(GraphPart, OnesThatDoNotFitTogetherAreRefused) {
  const PlacementRef one = Over(1, 1), two = Over(1, 2);
  const GraphPart::Contents good{{{NodeId(3), {"a", "", "", one}}, {NodeId(7), {"b", "", "", two}}},
                                 {{EdgeId(5), {NodeId(3), NodeId(7), EdgeKind::kScatter}}},
                                 6,
                                 HostSet({{HostId(0), 4}}),
                                 HostLoss::kEndsRuns};
  const auto refused = [&good](auto change) {
    GraphPart::Contents bad = good;
    change(bad);
    return std::string(GraphPart::Create(std::move(bad)).status().message());
  };
  using testing::HasSubstr;
  EXPECT_EQ(refused([](GraphPart::Contents&) {}), "");
  EXPECT_THAT(refused([](auto& part) { std::swap(part.nodes[0], part.nodes[1]); }), HasSubstr("node 'a' of a part has number 3"));
  EXPECT_THAT(refused([](auto& part) { part.nodes[1].id = NodeId(Graph::kMaxNodes); }),
              HasSubstr("node 'b' of a part has number"));
  EXPECT_THAT(refused([](auto& part) { part.nodes[1].node.placement = nullptr; }), HasSubstr("'b' is placed nowhere"));
  EXPECT_THAT(refused([](auto& part) { part.hosts = HostSet({{HostId(1), 3}}); }),
              HasSubstr("hosts that are not among the graph's"));
  EXPECT_THAT(refused([](auto& part) { part.all_edges = 5; }), HasSubstr("not below the graph's 5"));
  EXPECT_THAT(refused([](auto& part) { part.all_edges = UINT32_MAX; }), HasSubstr("at most"));
  EXPECT_THAT(refused([](auto& part) { part.host_loss = HostLoss::kConcernsNobody; }), HasSubstr("a graph with 6 edges"));
  EXPECT_THAT(refused([](auto& part) { part.edges.push_back(part.edges[0]); }), HasSubstr("does not ascend"));
  EXPECT_THAT(refused([](auto& part) { part.edges[0].edge.to = NodeId(4); }), HasSubstr("a node that is not in it"));
  EXPECT_THAT(refused([](auto& part) { part.edges[0].edge.kind = EdgeKind::kOneToOne; }),
              HasSubstr("one-to-one edge from 'a' to 'b'"));
}

TEST(GraphPart, AnyBytesGiveAPartOrAStatus) {
  Random random(1);
  const std::string good = ToProto(*PartOf(*RandomGraph(random, kHosts, 8, 12, "op"), HostId(0))).SerializeAsString();
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = good;
    for (uint32_t n = 1 + random.Below(4); n > 0; --n)
      bytes[random.Below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.Below(256));
    auto part = ParseGraphPart(bytes);
    if (!part.ok()) continue;
    ++parsed;
    for (uint32_t host = 0; host < kHosts; ++host) HostPlan::Create(*part, HostId(0), HostId(host), {}, 1000).IgnoreError();
  }
  EXPECT_GT(parsed, 0);
  EXPECT_LT(parsed, 5000);
  EXPECT_FALSE(ParseGraphPart("").ok());
  EXPECT_FALSE(ParseGraphPart("nonsense").ok());
  ::pathways::v1::dataflow::GraphPart large;
  ASSERT_TRUE(large.ParseFromString(good));
  large.add_hosts()->set_count(UINT32_MAX);
  EXPECT_FALSE(FromProto(large).ok());
}

}  // namespace
}  // namespace pw::dataflow
