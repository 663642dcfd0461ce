// HostPlan: one host's part in a graph, made once when the graph is installed and shared by all its runs: the local shards of
// each node, the parts in the edges, and the run's end, an edge from one shard on each host to one on the coordinator.
//
// Invariant HP-1: memory is O(nodes + edges + shards on this host), whatever the number of shards elsewhere.
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

  // RESOURCE_EXHAUSTED: more than `max_local_shards` shards here.
  static absl::StatusOr<std::shared_ptr<const HostPlan>> Create(std::shared_ptr<const Graph> graph, HostId coordinator,
                                                                HostId self, const ProgressKnobs& knobs,
                                                                uint32_t max_local_shards);

  const Graph& graph() const { return *graph_; }
  HostId self() const { return self_; }
  HostId coordinator() const { return coordinator_; }
  const std::vector<LocalNode>& nodes() const { return nodes_; }
  const std::vector<LocalEdge>& edges() const { return edges_; }
  // Positions in the above; kNone: nothing of it is here.
  uint32_t SlotOf(NodeId id) const { return id.v < node_slots_.size() ? node_slots_[id.v] : kNone; }
  uint32_t SlotOf(EdgeId id) const { return id.v < edge_slots_.size() ? edge_slots_[id.v] : kNone; }
  // Whether anything of a run goes from here to that host, or comes from there.
  bool TalksTo(HostId other) const;
  // The run's end. Idle on no host that has this plan.
  EdgeId end_edge() const { return EdgeId(static_cast<uint32_t>(graph_->edges().size())); }
  const EdgePlan& end() const { return *end_; }

 private:
  HostPlan(std::shared_ptr<const Graph> graph, HostId coordinator, HostId self, const ProgressKnobs& knobs);

  const std::shared_ptr<const Graph> graph_;
  const HostId coordinator_;
  const HostId self_;
  std::vector<LocalNode> nodes_;
  std::vector<LocalEdge> edges_;
  std::vector<uint32_t> node_slots_, edge_slots_;
  const Placement all_hosts_;
  const Placement at_coordinator_;
  std::unique_ptr<EdgePlan> end_;
};

}  // namespace pw::dataflow
