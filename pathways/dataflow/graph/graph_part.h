// GraphPart: one host's part of a graph: the nodes with shards on the host, the edges from and to them, and the nodes at the
// edges' other ends. The last have only names and placements. Nodes and edges keep the numbers that they have in the whole graph.
//
//   whole graph:       a ──0──► b ──1──► c ──2──► d        (a, b on host 1; c, d on host 2)
//   part of host 2:                b ──1──► c ──2──► d     (of b: name and placement)
//
// The coordinator keeps the whole graph (graph.h) and sends each host its part, so an install is as large as the host's share.
// Hosts know two things of the rest: the set of all hosts, and the number of all edges.
//
// Immutable, shared by all runs. An operator may keep data that it derives from a part for as long as the part lives. Any part is
// safe to use on any host: nodes and edges without shards on the host are ignored (host_plan.h).
//
// Invariants:
//   GP-1  numbers ascend, both ends of every edge are in the part, shard counts fit the kinds of the edges, and hosts() has every
//         host of the nodes
//   GP-2  memory is O(nodes and edges of the part + blocks of their distinct placements + intervals of the hosts)
//   GP-3  the parts of an acyclic graph hold no cycle. Parts from the wire are not checked for cycles: on a cycle a run waits until it
//         is cancelled
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph/graph.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::dataflow {

class GraphPart : public std::enable_shared_from_this<GraphPart> {
 public:
  struct NumberedNode {
    NodeId id;
    Node node;  // at the other end of an edge: without op and config
  };
  struct NumberedEdge {
    EdgeId id;
    Edge edge;
  };
  struct Contents {
    std::vector<NumberedNode> nodes;
    std::vector<NumberedEdge> edges;
    uint32_t all_edges = 0;  // of the whole graph
    HostSet hosts;           // of the whole graph
    HostLoss host_loss = HostLoss::kEndsRuns;
  };

  // INVALID_ARGUMENT names the node or edge that breaks GP-1.
  static absl::StatusOr<std::shared_ptr<const GraphPart>> Create(Contents contents);

  // Both ascending by id.
  const std::vector<NumberedNode>& nodes() const { return contents_.nodes; }
  const std::vector<NumberedEdge>& edges() const { return contents_.edges; }
  // Return the position in nodes() or edges(); their size if the node or edge is not in the part.
  size_t PositionOf(NodeId id) const { return Position(contents_.nodes, id); }
  size_t PositionOf(EdgeId id) const { return Position(contents_.edges, id); }
  // REQUIRES for the following: the node or edge is in the part.
  const Node& node(NodeId id) const { return contents_.nodes[PositionOf(id)].node; }
  const Edge& edge(EdgeId id) const { return contents_.edges[PositionOf(id)].edge; }
  const Placement& source(EdgeId id) const { return *node(edge(id).from).placement; }
  const Placement& destination(EdgeId id) const { return *node(edge(id).to).placement; }
  // The node's edges in this part: all of them if the node has shards on the host.
  const std::vector<EdgeId>& inputs(NodeId id) const { return inputs_[PositionOf(id)]; }
  const std::vector<EdgeId>& outputs(NodeId id) const { return outputs_[PositionOf(id)]; }

  uint32_t all_edges() const { return contents_.all_edges; }
  const HostSet& hosts() const { return contents_.hosts; }
  HostLoss host_loss() const { return contents_.host_loss; }

 private:
  explicit GraphPart(Contents contents);

  // In a dense part, numbers are positions.
  template <class Numbered, class Id>
  static size_t Position(const std::vector<Numbered>& all, Id id) {
    if (id.v < all.size() && all[id.v].id == id) return id.v;
    size_t low = 0, high = all.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (all[middle].id < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < all.size() && all[low].id == id ? low : all.size();
  }

  const Contents contents_;
  std::vector<std::vector<EdgeId>> inputs_, outputs_;  // by position of the node
};

// Returns the part of a host; it is empty if the host has no shards.
std::shared_ptr<const GraphPart> PartOf(const Graph& graph, HostId host);

// Serialization (proto/pathways/v1/dataflow.proto). Each placement and each name of an operator is written once.
::pathways::v1::dataflow::GraphPart ToProto(const GraphPart& part);
absl::StatusOr<std::shared_ptr<const GraphPart>> FromProto(const ::pathways::v1::dataflow::GraphPart& proto);
// INVALID_ARGUMENT: the bytes do not parse, or Create refuses the part.
absl::StatusOr<std::shared_ptr<const GraphPart>> ParseGraphPart(std::string_view bytes);

}  // namespace pw::dataflow
