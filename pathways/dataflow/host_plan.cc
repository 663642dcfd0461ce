#include "pathways/dataflow/host_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::dataflow {

absl::StatusOr<std::shared_ptr<HostPlan>> HostPlan::Make(std::shared_ptr<const GraphPart> part, HostId coordinator, HostId self,
                                                         const ProgressKnobs& knobs, uint32_t max_local_shards) {
  uint64_t shards = 0;
  for (const auto& [id, node] : part->nodes()) shards += node.placement->NumShardsOf(self);
  if (shards > max_local_shards) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a graph has ", shards, " shards on ", ToString(self), ", which takes at most ", max_local_shards));
  }
  return std::shared_ptr<HostPlan>(new HostPlan(std::move(part), coordinator, self, knobs));
}

absl::StatusOr<std::shared_ptr<const HostPlan>> HostPlan::Create(std::shared_ptr<const GraphPart> part, HostId coordinator,
                                                                 HostId self, const ProgressKnobs& knobs,
                                                                 uint32_t max_local_shards) {
  return Make(std::move(part), coordinator, self, knobs, max_local_shards);
}

absl::StatusOr<std::shared_ptr<const HostPlan>> HostPlan::Create(std::shared_ptr<const Graph> whole, HostId coordinator,
                                                                 const ProgressKnobs& knobs, uint32_t max_local_shards) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<HostPlan> plan,
                      Make(PartOf(*whole, coordinator), coordinator, coordinator, knobs, max_local_shards));
  plan->whole_ = std::move(whole);
  return plan;
}

HostPlan::HostPlan(std::shared_ptr<const GraphPart> part, HostId coordinator, HostId self, const ProgressKnobs& knobs)
    : part_(std::move(part)),
      coordinator_(coordinator),
      self_(self),
      knobs_(knobs),
      node_slots_(part_->nodes().size(), kNone),
      edge_slots_(part_->edges().size(), kNone),
      end_from_(reports_ends() ? Placement::OnePerHost(part_->hosts()) : Placement::OnHost(self)),
      end_to_(Placement::OnHost(reports_ends() ? coordinator : self)) {
  for (size_t n = 0; n < part_->nodes().size(); ++n) {
    std::vector<uint32_t> shards = part_->nodes()[n].node.placement->ShardsOf(self);
    if (shards.empty()) continue;
    node_slots_[n] = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({part_->nodes()[n].id, std::move(shards)});
  }
  for (size_t e = 0; e < part_->edges().size(); ++e) {
    const auto& [id, edge] = part_->edges()[e];
    if (SlotOf(edge.from) == kNone && SlotOf(edge.to) == kNone) continue;
    edge_slots_[e] = static_cast<uint32_t>(edges_.size());
    edges_.push_back(
        {id, &edge,
         EdgePlan({edge.kind, edge.single, outlives_hosts()}, part_->source(id), part_->destination(id), self, knobs)});
  }
  const EdgeRules end{EdgeKind::kGather, false, outlives_hosts()};
  end_ = std::make_unique<EdgePlan>(end, end_from_, end_to_, self, knobs);
}

bool HostPlan::EndsOn(HostId host) const {
  for (uint32_t n = 0; n < whole_->nodes().size(); ++n) {
    if (whole_->outputs(NodeId(n)).empty() && whole_->nodes()[n].placement->hosts().Contains(host)) return true;
  }
  return false;
}

bool HostPlan::TalksTo(HostId other) const {
  return end_->ReportsTo(other) ||
         std::any_of(edges_.begin(), edges_.end(), [other](const LocalEdge& edge) { return edge.plan.TalksTo(other); });
}

bool HostPlan::TalkToEachOther(HostId a, HostId b) const {
  return HostPlan(PartOf(*whole_, a), coordinator_, a, knobs_).TalksTo(b);
}

}  // namespace pw::dataflow
