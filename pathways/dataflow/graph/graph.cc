#include "pathways/dataflow/graph/graph.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::dataflow {
namespace {

absl::Status CheckAcyclic(const std::vector<Node>& nodes, const std::vector<Edge>& edges) {
  std::vector<uint32_t> open(nodes.size(), 0);
  std::vector<std::vector<uint32_t>> next(nodes.size());
  for (const Edge& edge : edges) {
    ++open[edge.to.v];
    next[edge.from.v].push_back(edge.to.v);
  }
  std::vector<uint32_t> ready;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (open[n] == 0) ready.push_back(n);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for (uint32_t n : next[ready[i]]) {
      if (--open[n] == 0) ready.push_back(n);
    }
  }
  if (ready.size() == nodes.size()) return absl::OkStatus();
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (open[n] > 0) return absl::InvalidArgumentError(absl::StrCat("node '", nodes[n].name, "' is on a cycle, or behind one"));
  }
  return absl::OkStatus();
}

}  // namespace

const char* ToString(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kOneToOne:
      return "one-to-one";
    case EdgeKind::kScatter:
      return "scatter";
    case EdgeKind::kGather:
      return "gather";
    case EdgeKind::kAllToAll:
      return "all-to-all";
    case EdgeKind::kSparse:
      return "sparse";
  }
  return "unknown";
}

absl::Status CheckEdge(const Edge& edge, const Node& source, const Node& destination) {
  const uint32_t from = source.placement->num_shards(), to = destination.placement->num_shards();
  auto wrong = [&](absl::string_view rule) {
    return absl::InvalidArgumentError(absl::StrCat("the ", ToString(edge.kind), " edge from '", source.name, "' to '",
                                                   destination.name, "' connects ", from, " shards with ", to, "; ", rule));
  };
  if (edge.single) {
    if (edge.kind == EdgeKind::kSparse) return wrong("a sparse edge cannot be single");
    if (edge.kind != EdgeKind::kOneToOne && uint64_t{from} * to > Graph::kMaxSinglePairs)
      return wrong(absl::StrCat("a single edge has at most ", Graph::kMaxSinglePairs, " pairs"));
  }
  switch (edge.kind) {
    case EdgeKind::kOneToOne:
      return from == to ? absl::OkStatus() : wrong("both sides must have equally many");
    case EdgeKind::kScatter:
      return from == 1 ? absl::OkStatus() : wrong("its source must have one");
    case EdgeKind::kGather:
      return to == 1 ? absl::OkStatus() : wrong("its destination must have one");
    case EdgeKind::kAllToAll:
    case EdgeKind::kSparse:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError("an edge of unknown kind");
}

absl::Status CheckHostLoss(HostLoss host_loss, size_t edges) {
  if (host_loss != HostLoss::kConcernsNobody || edges == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a graph with ", edges, " edges has shards that wait for others, so the loss of a host concerns these"));
}

absl::StatusOr<std::shared_ptr<const Graph>> Graph::Create(std::vector<Node> nodes, std::vector<Edge> edges, HostLoss host_loss) {
  if (nodes.empty() || nodes.size() > kMaxNodes || edges.size() > kMaxEdges) {
    return absl::InvalidArgumentError(absl::StrCat("a graph has 1 to ", kMaxNodes, " nodes and at most ", kMaxEdges,
                                                   " edges, not ", nodes.size(), " and ", edges.size()));
  }
  for (const Node& node : nodes) {
    if (node.placement == nullptr) return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' is placed nowhere"));
  }
  for (const Edge& edge : edges) {
    if (edge.from.v >= nodes.size() || edge.to.v >= nodes.size())
      return absl::InvalidArgumentError(absl::StrCat("an edge names a node that is not among the graph's ", nodes.size()));
    PW_RETURN_IF_ERROR(CheckEdge(edge, nodes[edge.from.v], nodes[edge.to.v]));
  }
  PW_RETURN_IF_ERROR(CheckHostLoss(host_loss, edges.size()));
  if (absl::Status status = CheckAcyclic(nodes, edges); !status.ok()) return status;
  return std::shared_ptr<const Graph>(new Graph(std::move(nodes), std::move(edges), host_loss));
}

HostSet Graph::ReadersOf(HostId host) const {
  std::vector<HostSet::Interval> intervals;
  for (uint32_t e = 0; e < edges_.size(); ++e) {
    const Placement &from = source(EdgeId(e)), &to = destination(EdgeId(e));
    if (!from.hosts().Contains(host)) continue;
    if (edges_[e].kind == EdgeKind::kOneToOne) {
      for (uint32_t shard : from.ShardsOf(host)) intervals.push_back({to.HostOf(shard), 1});
    } else {
      intervals.insert(intervals.end(), to.hosts().intervals().begin(), to.hosts().intervals().end());
    }
  }
  return HostSet(std::move(intervals));
}

Graph::Graph(std::vector<Node> nodes, std::vector<Edge> edges, HostLoss host_loss)
    : nodes_(std::move(nodes)), edges_(std::move(edges)), inputs_(nodes_.size()), outputs_(nodes_.size()), host_loss_(host_loss) {
  std::vector<HostSet::Interval> intervals;
  absl::flat_hash_set<const Placement*> seen;  // nodes share placements: each counts once
  for (const Node& node : nodes_) {
    if (!seen.insert(node.placement.get()).second) continue;
    const HostSet& hosts = node.placement->hosts();
    intervals.insert(intervals.end(), hosts.intervals().begin(), hosts.intervals().end());
  }
  hosts_ = HostSet(std::move(intervals));
  for (uint32_t e = 0; e < edges_.size(); ++e) {
    outputs_[edges_[e].from.v].push_back(EdgeId(e));
    inputs_[edges_[e].to.v].push_back(EdgeId(e));
  }
}

}  // namespace pw::dataflow
