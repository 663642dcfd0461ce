#include "pathways/dataflow/graph_wire.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace pw::dataflow {
namespace {
namespace wire = ::pathways::v1::dataflow;

absl::StatusOr<PlacementRef> PlacementFrom(const wire::Graph::Placement& proto) {
  std::vector<Placement::Block> blocks;
  blocks.reserve(proto.blocks_size());
  for (const auto& block : proto.blocks()) blocks.push_back({HostId(block.first_host()), block.hosts(), block.shards_per_host()});
  absl::StatusOr<Placement> placement = Placement::Create(std::move(blocks), proto.repeat() == 0 ? 1 : proto.repeat());
  if (!placement.ok()) return placement.status();
  return std::make_shared<const Placement>(*std::move(placement));
}

absl::StatusOr<EdgeKind> KindFrom(wire::Graph::Edge::Kind kind) {
  switch (kind) {
    case wire::Graph::Edge::ONE_TO_ONE:
      return EdgeKind::kOneToOne;
    case wire::Graph::Edge::SCATTER:
      return EdgeKind::kScatter;
    case wire::Graph::Edge::GATHER:
      return EdgeKind::kGather;
    case wire::Graph::Edge::ALL_TO_ALL:
      return EdgeKind::kAllToAll;
    case wire::Graph::Edge::SPARSE:
      return EdgeKind::kSparse;
    default:
      return absl::InvalidArgumentError(absl::StrCat("an edge of unknown kind ", static_cast<int>(kind)));
  }
}

wire::Graph::Edge::Kind KindTo(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kOneToOne:
      return wire::Graph::Edge::ONE_TO_ONE;
    case EdgeKind::kScatter:
      return wire::Graph::Edge::SCATTER;
    case EdgeKind::kGather:
      return wire::Graph::Edge::GATHER;
    case EdgeKind::kAllToAll:
      return wire::Graph::Edge::ALL_TO_ALL;
    case EdgeKind::kSparse:
      return wire::Graph::Edge::SPARSE;
  }
  return wire::Graph::Edge::SPARSE;
}

}  // namespace

wire::Graph ToProto(const Graph& graph) {
  wire::Graph proto;
  absl::flat_hash_map<const Placement*, uint32_t> known;
  for (const Node& node : graph.nodes()) {
    auto [it, fresh] = known.try_emplace(node.placement.get(), proto.placements_size());
    if (fresh) {
      auto* placement = proto.add_placements();
      placement->set_repeat(node.placement->repeat());
      for (const Placement::Block& block : node.placement->blocks()) {
        auto* b = placement->add_blocks();
        b->set_first_host(block.first_host.v);
        b->set_hosts(block.hosts);
        b->set_shards_per_host(block.shards_per_host);
      }
    }
    auto* n = proto.add_nodes();
    n->set_name(node.name);
    n->set_op(node.op);
    n->set_config(node.config);
    n->set_placement(it->second);
  }
  for (const Edge& edge : graph.edges()) {
    auto* e = proto.add_edges();
    e->set_from(edge.from.v);
    e->set_to(edge.to.v);
    e->set_kind(KindTo(edge.kind));
    e->set_critical(edge.critical);
    e->set_single(edge.single);
  }
  proto.set_host_loss(graph.host_loss() == HostLoss::kFailsShards ? wire::Graph::FAILS_SHARDS : wire::Graph::ENDS_RUNS);
  return proto;
}

absl::StatusOr<std::shared_ptr<const Graph>> FromProto(const wire::Graph& proto) {
  std::vector<PlacementRef> placements;
  placements.reserve(proto.placements_size());
  for (const auto& p : proto.placements()) {
    absl::StatusOr<PlacementRef> placement = PlacementFrom(p);
    if (!placement.ok()) return placement.status();
    placements.push_back(*std::move(placement));
  }
  std::vector<Node> nodes;
  for (const auto& n : proto.nodes()) {
    if (n.placement() >= placements.size())
      return absl::InvalidArgumentError(absl::StrCat("node '", n.name(), "' names a placement that is not there"));
    nodes.push_back({n.name(), n.op(), n.config(), placements[n.placement()]});
  }
  std::vector<Edge> edges;
  for (const auto& e : proto.edges()) {
    absl::StatusOr<EdgeKind> kind = KindFrom(e.kind());
    if (!kind.ok()) return kind.status();
    edges.push_back({NodeId(e.from()), NodeId(e.to()), *kind, e.critical(), e.single()});
  }
  if (proto.host_loss() != wire::Graph::ENDS_RUNS && proto.host_loss() != wire::Graph::FAILS_SHARDS)
    return absl::InvalidArgumentError("the graph does not say what a lost host does to its runs");
  return Graph::Create(std::move(nodes), std::move(edges),
                       proto.host_loss() == wire::Graph::FAILS_SHARDS ? HostLoss::kFailsShards : HostLoss::kEndsRuns);
}

absl::StatusOr<std::shared_ptr<const Graph>> ParseGraph(std::string_view bytes) {
  wire::Graph proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return absl::InvalidArgumentError("these bytes are not a dataflow graph");
  return FromProto(proto);
}

}  // namespace pw::dataflow
