#include "pathways/dataflow/graph/graph_part.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::dataflow {
namespace {

constexpr uint64_t kHostNumbers = uint64_t{1} << 32;

absl::Status CheckNodes(const GraphPart::Contents& contents) {
  const auto& nodes = contents.nodes;
  std::vector<HostSet::Interval> intervals = contents.hosts.intervals();
  absl::flat_hash_set<const Placement*> seen;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].id.v >= Graph::kMaxNodes || (n > 0 && nodes[n].id <= nodes[n - 1].id))
      return absl::InvalidArgumentError(absl::StrCat("node '", nodes[n].node.name, "' of a part has number ", nodes[n].id.v,
                                                     ", which does not ascend, or is not below ", Graph::kMaxNodes));
    const PlacementRef& placement = nodes[n].node.placement;
    if (placement == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("node '", nodes[n].node.name, "' is placed nowhere"));
    if (!seen.insert(placement.get()).second) continue;
    intervals.insert(intervals.end(), placement->hosts().intervals().begin(), placement->hosts().intervals().end());
  }
  if (HostSet(std::move(intervals)) == contents.hosts) return absl::OkStatus();
  return absl::InvalidArgumentError("a part of a graph has nodes on hosts that are not among the graph's");
}

absl::Status CheckNumber(const GraphPart::Contents& contents, size_t e) {
  const auto& edges = contents.edges;
  if (contents.all_edges > Graph::kMaxEdges)
    return absl::InvalidArgumentError(absl::StrCat("a graph has at most ", Graph::kMaxEdges, " edges, not ", contents.all_edges));
  if (edges[e].id.v < contents.all_edges && (e == 0 || edges[e].id > edges[e - 1].id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an edge of a part has number ", edges[e].id.v,
                                                 ", which does not ascend, or is not below the graph's ", contents.all_edges));
}

absl::StatusOr<PlacementRef> PlacementFrom(const ::pathways::v1::dataflow::GraphPart::Placement& proto) {
  std::vector<Placement::Block> blocks;
  blocks.reserve(proto.blocks_size());
  for (const auto& block : proto.blocks()) blocks.push_back({HostId(block.first_host()), block.hosts(), block.shards_per_host()});
  PW_ASSIGN_OR_RETURN(Placement placement, Placement::Create(std::move(blocks), proto.repeat() == 0 ? 1 : proto.repeat()));
  return std::make_shared<const Placement>(std::move(placement));
}

using WireEdge = ::pathways::v1::dataflow::GraphPart::Edge;

absl::StatusOr<EdgeKind> KindFrom(WireEdge::Kind kind) {
  switch (kind) {
    case WireEdge::ONE_TO_ONE:
      return EdgeKind::kOneToOne;
    case WireEdge::SCATTER:
      return EdgeKind::kScatter;
    case WireEdge::GATHER:
      return EdgeKind::kGather;
    case WireEdge::ALL_TO_ALL:
      return EdgeKind::kAllToAll;
    case WireEdge::SPARSE:
      return EdgeKind::kSparse;
    default:
      return absl::InvalidArgumentError(absl::StrCat("an edge of unknown kind ", static_cast<int>(kind)));
  }
}

WireEdge::Kind KindTo(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kOneToOne:
      return WireEdge::ONE_TO_ONE;
    case EdgeKind::kScatter:
      return WireEdge::SCATTER;
    case EdgeKind::kGather:
      return WireEdge::GATHER;
    case EdgeKind::kAllToAll:
      return WireEdge::ALL_TO_ALL;
    case EdgeKind::kSparse:
      return WireEdge::SPARSE;
  }
  return WireEdge::SPARSE;
}

using WireLoss = ::pathways::v1::dataflow::GraphPart;

absl::StatusOr<HostLoss> LossFrom(WireLoss::HostLoss loss) {
  switch (loss) {
    case WireLoss::ENDS_RUNS:
      return HostLoss::kEndsRuns;
    case WireLoss::FAILS_SHARDS:
      return HostLoss::kFailsShards;
    case WireLoss::CONCERNS_NOBODY:
      return HostLoss::kConcernsNobody;
    default:
      return absl::InvalidArgumentError("the graph does not say what a lost host does to its runs");
  }
}

WireLoss::HostLoss LossTo(HostLoss loss) {
  switch (loss) {
    case HostLoss::kEndsRuns:
      return WireLoss::ENDS_RUNS;
    case HostLoss::kFailsShards:
      return WireLoss::FAILS_SHARDS;
    case HostLoss::kConcernsNobody:
      return WireLoss::CONCERNS_NOBODY;
  }
  return WireLoss::ENDS_RUNS;
}

// Writes the distinct placements and operators of nodes once each.
class Writer {
 public:
  ::pathways::v1::dataflow::GraphPart Write(const GraphPart& part) {
    uint32_t next = 0;
    for (const auto& [id, node] : part.nodes()) {
      auto* n = proto_.add_nodes();
      n->set_skipped(id.v - std::exchange(next, id.v + 1));
      n->set_name(node.name);
      n->set_op(OperatorNumber(node.op));
      n->set_config(node.config);
      n->set_placement(PlacementNumber(*node.placement));
    }
    next = 0;
    for (const auto& [id, edge] : part.edges()) {
      auto* e = proto_.add_edges();
      e->set_skipped(id.v - std::exchange(next, id.v + 1));
      e->set_from(static_cast<uint32_t>(part.PositionOf(edge.from)));
      e->set_to(static_cast<uint32_t>(part.PositionOf(edge.to)));
      e->set_kind(KindTo(edge.kind));
      e->set_critical(edge.critical);
      e->set_single(edge.single);
    }
    proto_.set_all_edges(part.all_edges());
    for (const HostSet::Interval& interval : part.hosts().intervals()) {
      auto* hosts = proto_.add_hosts();
      hosts->set_first(interval.first.v);
      hosts->set_count(interval.count);
    }
    proto_.set_host_loss(LossTo(part.host_loss()));
    return std::move(proto_);
  }

 private:
  uint32_t OperatorNumber(const std::string& op) {
    if (op.empty()) return 0;
    auto [it, fresh] = operators_.try_emplace(op, proto_.operators_size() + 1);
    if (fresh) proto_.add_operators(op);
    return it->second;
  }

  uint32_t PlacementNumber(const Placement& placement) {
    auto [it, fresh] = placements_.try_emplace(&placement, proto_.placements_size());
    if (!fresh) return it->second;
    auto* out = proto_.add_placements();
    out->set_repeat(placement.repeat() == 1 ? 0 : placement.repeat());
    for (const Placement::Block& block : placement.blocks()) {
      auto* b = out->add_blocks();
      b->set_first_host(block.first_host.v);
      b->set_hosts(block.hosts);
      b->set_shards_per_host(block.shards_per_host);
    }
    return it->second;
  }

  ::pathways::v1::dataflow::GraphPart proto_;
  absl::flat_hash_map<std::string, uint32_t> operators_;
  absl::flat_hash_map<const Placement*, uint32_t> placements_;
};

// Returns the number after `skipped` missing ones, and moves `next` past it. Numbers beyond 32 bits do not pass the checks of Create.
uint32_t TakeNumber(uint32_t skipped, uint64_t* next) {
  const uint64_t number = *next + skipped;
  *next = number + 1;
  return number < UINT32_MAX ? static_cast<uint32_t>(number) : UINT32_MAX;
}

// A graph over more hosts than a placement may have is refused: its runs could not end (host_plan.h).
absl::StatusOr<HostSet> HostsFrom(const ::pathways::v1::dataflow::GraphPart& proto) {
  std::vector<HostSet::Interval> intervals;
  uint64_t count = 0;
  for (const auto& hosts : proto.hosts()) {
    count += hosts.count();
    intervals.push_back({HostId(hosts.first()), hosts.count()});
    if (count > Placement::kMaxShards || intervals.size() > Placement::kMaxBlocks ||
        uint64_t{hosts.first()} + hosts.count() > kHostNumbers)
      return absl::InvalidArgumentError(
          absl::StrCat("a graph is on too many hosts, or on hosts beyond number ", kHostNumbers - 1));
  }
  return HostSet(std::move(intervals));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const GraphPart>> GraphPart::Create(Contents contents) {
  PW_RETURN_IF_ERROR(CheckNodes(contents));
  PW_RETURN_IF_ERROR(CheckHostLoss(contents.host_loss, contents.all_edges));
  for (size_t e = 0; e < contents.edges.size(); ++e) {
    PW_RETURN_IF_ERROR(CheckNumber(contents, e));
    const Edge& edge = contents.edges[e].edge;
    const size_t from = Position(contents.nodes, edge.from), to = Position(contents.nodes, edge.to);
    if (from == contents.nodes.size() || to == contents.nodes.size())
      return absl::InvalidArgumentError(
          absl::StrCat("edge ", contents.edges[e].id.v, " of a part leads to a node that is not in it"));
    PW_RETURN_IF_ERROR(CheckEdge(edge, contents.nodes[from].node, contents.nodes[to].node));
  }
  return std::shared_ptr<const GraphPart>(new GraphPart(std::move(contents)));
}

GraphPart::GraphPart(Contents contents)
    : contents_(std::move(contents)), inputs_(contents_.nodes.size()), outputs_(contents_.nodes.size()) {
  for (const auto& [id, edge] : contents_.edges) {
    outputs_[PositionOf(edge.from)].push_back(id);
    inputs_[PositionOf(edge.to)].push_back(id);
  }
}

std::shared_ptr<const GraphPart> PartOf(const Graph& graph, HostId host) {
  const uint32_t count = static_cast<uint32_t>(graph.nodes().size());
  std::vector<bool> here(count), there(count);
  for (uint32_t n = 0; n < count; ++n) here[n] = graph.nodes()[n].placement->hosts().Contains(host);
  GraphPart::Contents part{{}, {}, static_cast<uint32_t>(graph.edges().size()), graph.hosts(), graph.host_loss()};
  for (uint32_t e = 0; e < graph.edges().size(); ++e) {
    const Edge& edge = graph.edges()[e];
    if (!here[edge.from.v] && !here[edge.to.v]) continue;
    there[edge.from.v] = there[edge.to.v] = true;
    part.edges.push_back({EdgeId(e), edge});
  }
  for (uint32_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes()[n];
    if (here[n])
      part.nodes.push_back(
          {NodeId(n), {node.name, node.op, node.config_of ? node.config_of(host) : node.config, node.placement}});
    if (!here[n] && there[n]) part.nodes.push_back({NodeId(n), {node.name, "", "", node.placement}});
  }
  auto created = GraphPart::Create(std::move(part));
  PW_CHECK(created.ok());
  return *std::move(created);
}

::pathways::v1::dataflow::GraphPart ToProto(const GraphPart& part) { return Writer().Write(part); }

absl::StatusOr<std::shared_ptr<const GraphPart>> FromProto(const ::pathways::v1::dataflow::GraphPart& proto) {
  std::vector<PlacementRef> placements;
  placements.reserve(proto.placements_size());
  for (const auto& p : proto.placements()) {
    PW_ASSIGN_OR_RETURN(PlacementRef placement, PlacementFrom(p));
    placements.push_back(std::move(placement));
  }
  if (proto.nodes().empty()) return absl::InvalidArgumentError("a host gets a part of a graph without nodes");
  GraphPart::Contents part;
  uint64_t next = 0;
  for (const auto& n : proto.nodes()) {
    if (n.placement() >= placements.size() || n.op() > static_cast<uint32_t>(proto.operators_size()))
      return absl::InvalidArgumentError(absl::StrCat("node '", n.name(), "' names a placement or operator that is not there"));
    part.nodes.push_back(
        {NodeId(TakeNumber(n.skipped(), &next)),
         {n.name(), n.op() == 0 ? "" : proto.operators(static_cast<int>(n.op()) - 1), n.config(), placements[n.placement()]}});
  }
  next = 0;
  for (const auto& e : proto.edges()) {
    PW_ASSIGN_OR_RETURN(const EdgeKind kind, KindFrom(e.kind()));
    if (e.from() >= part.nodes.size() || e.to() >= part.nodes.size())
      return absl::InvalidArgumentError("an edge of a part leads to a node that is not in it");
    part.edges.push_back({EdgeId(TakeNumber(e.skipped(), &next)),
                          {part.nodes[e.from()].id, part.nodes[e.to()].id, kind, e.critical(), e.single()}});
  }
  part.all_edges = proto.all_edges();
  PW_ASSIGN_OR_RETURN(part.hosts, HostsFrom(proto));
  PW_ASSIGN_OR_RETURN(part.host_loss, LossFrom(proto.host_loss()));
  return GraphPart::Create(std::move(part));
}

absl::StatusOr<std::shared_ptr<const GraphPart>> ParseGraphPart(std::string_view bytes) {
  ::pathways::v1::dataflow::GraphPart proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return absl::InvalidArgumentError("these bytes are not a part of a dataflow graph");
  return FromProto(proto);
}

}  // namespace pw::dataflow
