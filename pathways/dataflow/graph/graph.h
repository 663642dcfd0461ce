// Graph: a dataflow of sharded nodes, which its coordinator installs and runs. It has one node per sharded computation and one edge per
// sharded dependency, for any number of shards (§4.3): A→B over N shards is Arg → A → B → Result. Hosts get their parts of it
// (graph_part.h).
//
// Immutable, shared by all its runs, and valid by construction. The kinds of edges, from S source shards to D destination shards:
//   - one-to-one:  S = D; source shard i sends to destination shard i only
//   - scatter:     S = 1; the source sends to any destination shard
//   - gather:      D = 1; every source shard sends to the one destination
//   - all-to-all:  every source shard sends to every destination shard
//   - sparse:      every source shard sends to the destination shards that it picks at run time
//
// On every kind, a source shard may send any number of tuples, or none. When the edge closes for a destination shard, the shard
// has received all its tuples (progress/edge_progress.h). For this, source hosts report how many they have sent.
//
// Single edges need no reports: each source shard sends exactly one tuple to each destination shard to which its edge leads. So the last
// tuple closes the edge for its shard. A source shard that fails before it has sent a tuple sends its error instead.
//
// Invariants:
//   GR-1  the graph has no cycles, and shard counts fit the kinds of the edges
//   GR-2  memory is O(nodes + edges + blocks of the distinct placements)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph/ids.h"
#include "pathways/dataflow/graph/placement.h"

namespace pw::dataflow {

enum class EdgeKind { kOneToOne, kScatter, kGather, kAllToAll, kSparse };

const char* ToString(EdgeKind kind);

using PlacementRef = std::shared_ptr<const Placement>;

struct Node {
  std::string name;    // for messages and logs
  std::string op;      // the name of the operator that runs its shards (operator.h)
  std::string config;  // for the operator; opaque here
  PlacementRef placement;
  std::function<std::string(HostId host)> config_of = nullptr;  // or: each host's own config; called when the host's part is made
};

struct Edge {
  NodeId from, to;
  EdgeKind kind = EdgeKind::kOneToOne;
  bool critical = false;  // its tuples and reports leave at once; others are coalesced (batching.h)
  bool single = false;    // exactly one tuple for each pair of shards, which closes the edge; not for sparse edges
};

// INVALID_ARGUMENT names the edge if its kind does not fit the shard counts of its ends.
absl::Status CheckEdge(const Edge& edge, const Node& source, const Node& destination);

// The effect of a lost host on a run in which it has shards.
enum class HostLoss {
  kEndsRuns,        // the run ends
  kFailsShards,     // the host's shards fail, and the run goes on
  kConcernsNobody,  // none. For orders whose end no host awaits: the graph has no edges, and no host reports the end of a run
};

// INVALID_ARGUMENT if the graph has edges, and `host_loss` is kConcernsNobody.
absl::Status CheckHostLoss(HostLoss host_loss, size_t edges);

class Graph {
 public:
  static constexpr size_t kMaxNodes = 1u << 18;
  static constexpr size_t kMaxEdges = 1u << 18;
  static constexpr uint64_t kMaxSinglePairs = 1u << 24;  // pairs of shards of a single edge

  // INVALID_ARGUMENT names the invalid node or edge, and says why.
  static absl::StatusOr<std::shared_ptr<const Graph>> Create(std::vector<Node> nodes, std::vector<Edge> edges,
                                                             HostLoss host_loss = HostLoss::kEndsRuns);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  const Node& node(NodeId id) const { return nodes_[id.v]; }
  const Edge& edge(EdgeId id) const { return edges_[id.v]; }
  const Placement& source(EdgeId id) const { return *nodes_[edges_[id.v].from.v].placement; }
  const Placement& destination(EdgeId id) const { return *nodes_[edges_[id.v].to.v].placement; }
  // In the order in which Create was given the edges.
  const std::vector<EdgeId>& inputs(NodeId id) const { return inputs_[id.v]; }
  const std::vector<EdgeId>& outputs(NodeId id) const { return outputs_[id.v]; }
  // All hosts that hold a shard of any node.
  const HostSet& hosts() const { return hosts_; }
  HostLoss host_loss() const { return host_loss_; }
  // The hosts of the shards to which edges lead from the host's shards.
  HostSet ReadersOf(HostId host) const;

 private:
  Graph(std::vector<Node> nodes, std::vector<Edge> edges, HostLoss host_loss);

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<EdgeId>> inputs_, outputs_;
  HostSet hosts_;
  HostLoss host_loss_;
};

}  // namespace pw::dataflow
