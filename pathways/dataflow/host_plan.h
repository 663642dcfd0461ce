// HostPlan: one host's part in a graph: its shards of each node and its part in each edge. The host's runtime (runtime.h) makes it once,
// when the graph is installed; all runs of the graph share it.
//
// The plan also has the end edge, which is not in the graph. It leads from one shard on each host of the graph to one shard on the
// coordinator, and closes when all these hosts have finished a run.
//
// Invariant HP-1: memory is O(nodes + edges + shards on this host). Shards on other hosts take none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph.h"
#include "pathways/dataflow/progress/edge_plan.h"

namespace pw::dataflow {

class HostPlan {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct LocalNode {
    NodeId id;
    std::vector<uint32_t> shards;  // ascending
  };
  struct LocalEdge {
    EdgeId id;
    EdgePlan plan;
  };

  // RESOURCE_EXHAUSTED: this host would have more than `max_local_shards` shards.
  static absl::StatusOr<std::shared_ptr<const HostPlan>> Create(std::shared_ptr<const Graph> graph, HostId coordinator,
                                                                HostId self, const ProgressKnobs& knobs,
                                                                uint32_t max_local_shards);

  const Graph& graph() const { return *graph_; }
  const std::shared_ptr<const Graph>& shared_graph() const { return graph_; }
  const ProgressKnobs& knobs() const { return knobs_; }
  HostId self() const { return self_; }
  HostId coordinator() const { return coordinator_; }
  // Returns whether runs go on when a host is lost. The coordinator's loss ends them all the same.
  bool outlives_hosts() const { return graph_->host_loss() == HostLoss::kFailsShards; }
  // Returns whether the host has a shard of a node without outputs: if it is lost, nobody handles that shard's failure.
  bool EndsOn(HostId host) const;
  const std::vector<LocalNode>& nodes() const { return nodes_; }
  const std::vector<LocalEdge>& edges() const { return edges_; }
  // Return the position in nodes() or edges(); kNone if this host has no part in the node or edge.
  uint32_t SlotOf(NodeId id) const { return id.v < node_slots_.size() ? node_slots_[id.v] : kNone; }
  uint32_t SlotOf(EdgeId id) const { return id.v < edge_slots_.size() ? edge_slots_[id.v] : kNone; }
  // Returns whether tuples or reports of a run may travel between this host and `other`.
  bool TalksTo(HostId other) const;
  // The same between two other hosts of the graph. Takes as long as making a plan.
  bool TalkToEachOther(HostId a, HostId b) const;
  // Return the end edge. Every host that has this plan takes part in it.
  EdgeId end_edge() const { return EdgeId(static_cast<uint32_t>(graph_->edges().size())); }
  const EdgePlan& end() const { return *end_; }

 private:
  HostPlan(std::shared_ptr<const Graph> graph, HostId coordinator, HostId self, const ProgressKnobs& knobs);

  const std::shared_ptr<const Graph> graph_;
  const HostId coordinator_;
  const HostId self_;
  const ProgressKnobs knobs_;
  std::vector<LocalNode> nodes_;
  std::vector<LocalEdge> edges_;
  std::vector<uint32_t> node_slots_, edge_slots_;
  const Placement all_hosts_;
  const Placement at_coordinator_;
  std::unique_ptr<EdgePlan> end_;
};

}  // namespace pw::dataflow
