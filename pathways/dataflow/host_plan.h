// HostPlan: one host's part in the runs of a graph: its shards of each node, and its part in each edge. The host's runtime
// (runtime.h) makes it once from the host's part of the graph (graph_part.h), when the graph is installed; all runs share it.
//
// The plan also has the end edge, which is not in the graph. It leads from one shard on each host of the graph to one shard on
// the coordinator, and closes when all these hosts have finished a run. In a graph of orders (HostLoss::kConcernsNobody) it leads
// from each host to that host itself: a run is over there when it has finished there.
//
// Invariants:
//   HP-1  memory is that of the part and O(shards on this host). Shards on other hosts take none
//   HP-2  the plan of a host's part is the plan of the whole graph for this host
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph/graph_part.h"
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
    const Edge* edge;
    EdgePlan plan;
  };

  // RESOURCE_EXHAUSTED: this host would have more than `max_local_shards` shards.
  static absl::StatusOr<std::shared_ptr<const HostPlan>> Create(std::shared_ptr<const GraphPart> part, HostId coordinator,
                                                                HostId self, const ProgressKnobs& knobs,
                                                                uint32_t max_local_shards);
  // The coordinator's plan, which also has the whole graph.
  static absl::StatusOr<std::shared_ptr<const HostPlan>> Create(std::shared_ptr<const Graph> whole, HostId coordinator,
                                                                const ProgressKnobs& knobs, uint32_t max_local_shards);

  const GraphPart& part() const { return *part_; }
  // REQUIRES: this is the coordinator.
  const Graph& whole() const { return *whole_; }
  // The hosts of the whole graph.
  const HostSet& hosts() const { return part_->hosts(); }
  const ProgressKnobs& knobs() const { return knobs_; }
  HostId self() const { return self_; }
  HostId coordinator() const { return coordinator_; }
  // Returns whether runs go on when a host is lost. The coordinator's loss ends them all the same.
  bool outlives_hosts() const { return part_->host_loss() != HostLoss::kEndsRuns; }
  // Returns whether hosts report the ends of runs to the coordinator.
  bool reports_ends() const { return part_->host_loss() != HostLoss::kConcernsNobody; }
  // Returns whether the host has a shard of a node without outputs: if it is lost, no shard handles that failure. REQUIRES: this
  // is the coordinator.
  bool EndsOn(HostId host) const;
  const std::vector<LocalNode>& nodes() const { return nodes_; }
  const std::vector<LocalEdge>& edges() const { return edges_; }
  // Return the position in nodes() or edges(); kNone if this host has no part in the node or edge.
  uint32_t SlotOf(NodeId id) const { return SlotAt(node_slots_, part_->PositionOf(id)); }
  uint32_t SlotOf(EdgeId id) const { return SlotAt(edge_slots_, part_->PositionOf(id)); }
  // Returns whether tuples or reports of a run may travel between this host and `other`.
  bool TalksTo(HostId other) const;
  // The same between two other hosts of the graph. Takes as long as making a plan. REQUIRES: this is the coordinator.
  bool TalkToEachOther(HostId a, HostId b) const;
  // Return the end edge. Every host that has this plan takes part in it.
  EdgeId end_edge() const { return EdgeId(part_->all_edges()); }
  const EdgePlan& end() const { return *end_; }

 private:
  HostPlan(std::shared_ptr<const GraphPart> part, HostId coordinator, HostId self, const ProgressKnobs& knobs);
  static absl::StatusOr<std::shared_ptr<HostPlan>> Make(std::shared_ptr<const GraphPart> part, HostId coordinator, HostId self,
                                                        const ProgressKnobs& knobs, uint32_t max_local_shards);
  static uint32_t SlotAt(const std::vector<uint32_t>& slots, size_t position) {
    return position < slots.size() ? slots[position] : kNone;
  }

  const std::shared_ptr<const GraphPart> part_;
  std::shared_ptr<const Graph> whole_;
  const HostId coordinator_;
  const HostId self_;
  const ProgressKnobs knobs_;
  std::vector<LocalNode> nodes_;
  std::vector<LocalEdge> edges_;
  std::vector<uint32_t> node_slots_, edge_slots_;  // by position in the part
  const Placement end_from_;
  const Placement end_to_;
  std::unique_ptr<EdgePlan> end_;
};

}  // namespace pw::dataflow
