#include "pathways/dataflow/host_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::dataflow {

absl::StatusOr<std::shared_ptr<const HostPlan>> HostPlan::Create(std::shared_ptr<const Graph> graph, HostId coordinator,
                                                                 HostId self, const ProgressKnobs& knobs,
                                                                 uint32_t max_local_shards) {
  uint64_t shards = 0;
  for (const Node& node : graph->nodes()) shards += node.placement->NumShardsOf(self);
  if (shards > max_local_shards) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a graph has ", shards, " shards on ", ToString(self), ", which takes at most ", max_local_shards));
  }
  return std::shared_ptr<const HostPlan>(new HostPlan(std::move(graph), coordinator, self, knobs));
}

HostPlan::HostPlan(std::shared_ptr<const Graph> graph, HostId coordinator, HostId self, const ProgressKnobs& knobs)
    : graph_(std::move(graph)),
      coordinator_(coordinator),
      self_(self),
      knobs_(knobs),
      node_slots_(graph_->nodes().size(), kNone),
      edge_slots_(graph_->edges().size(), kNone),
      all_hosts_(Placement::OnePerHost(graph_->hosts())),
      at_coordinator_(Placement::OnHost(coordinator)) {
  for (uint32_t n = 0; n < graph_->nodes().size(); ++n) {
    std::vector<uint32_t> shards = graph_->nodes()[n].placement->ShardsOf(self);
    if (shards.empty()) continue;
    node_slots_[n] = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({NodeId(n), std::move(shards)});
  }
  for (uint32_t e = 0; e < graph_->edges().size(); ++e) {
    const Edge& edge = graph_->edges()[e];
    if (SlotOf(edge.from) == kNone && SlotOf(edge.to) == kNone) continue;
    edge_slots_[e] = static_cast<uint32_t>(edges_.size());
    edges_.push_back({EdgeId(e), EdgePlan({edge.kind, edge.single, outlives_hosts()}, graph_->source(EdgeId(e)),
                                          graph_->destination(EdgeId(e)), self, knobs)});
  }
  const EdgeRules end{EdgeKind::kGather, false, outlives_hosts()};
  end_ = std::make_unique<EdgePlan>(end, all_hosts_, at_coordinator_, self, knobs);
}

bool HostPlan::EndsOn(HostId host) const {
  for (uint32_t n = 0; n < graph_->nodes().size(); ++n) {
    if (graph_->outputs(NodeId(n)).empty() && graph_->nodes()[n].placement->hosts().Contains(host)) return true;
  }
  return false;
}

bool HostPlan::TalksTo(HostId other) const {
  return end_->ReportsTo(other) ||
         std::any_of(edges_.begin(), edges_.end(), [other](const LocalEdge& edge) { return edge.plan.TalksTo(other); });
}

bool HostPlan::TalkToEachOther(HostId a, HostId b) const { return HostPlan(graph_, coordinator_, a, knobs_).TalksTo(b); }

}  // namespace pw::dataflow
