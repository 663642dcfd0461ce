#include "pathways/dataflow/progress/edge_plan.h"

#include <algorithm>

#include "pathways/base/sort_and_merge.h"

namespace pw::dataflow {
namespace {

bool GoesDirect(const EdgeRules& rules, const Placement& from, const Placement& to, const ProgressKnobs& knobs) {
  return rules.outlives_hosts || rules.kind == EdgeKind::kOneToOne ||
         uint64_t{from.hosts().size()} * to.hosts().size() <= knobs.direct_pairs;
}

std::vector<HostId> HostsOf(const Placement& placement, const std::vector<uint32_t>& shards) {
  std::vector<HostId> hosts;
  for (uint32_t shard : shards) hosts.push_back(placement.HostOf(shard));
  SortAndMerge(hosts);
  return hosts;
}

std::vector<HostId> All(const HostSet& set) {
  std::vector<HostId> hosts;
  for (uint32_t i = 0; i < set.size(); ++i) hosts.push_back(set.At(i));
  return hosts;
}

}  // namespace

EdgePlan::EdgePlan(const EdgeRules& rules, const Placement& from, const Placement& to, HostId self, const ProgressKnobs& knobs)
    : kind(rules.kind),
      single(rules.single),
      outlives_hosts(rules.outlives_hosts),
      from(&from),
      to(&to),
      self(self),
      sources(from.ShardsOf(self)),
      destinations(to.ShardsOf(self)) {
  if (single) return;
  direct = GoesDirect(rules, from, to, knobs);
  if (direct) {
    PlanDirect();
  } else {
    PlanTrees(knobs);
  }
}

bool EdgePlan::Allows(uint32_t source, uint32_t destination) const {
  return kind == EdgeKind::kOneToOne ? source == destination : destination < to->num_shards();
}

// Direct reports go to the hosts to which the tuples go.
bool EdgePlan::TalksTo(HostId other) const { return (!direct && ExchangesTuplesWith(other)) || ReportsTo(other); }

bool EdgePlan::ExchangesTuplesWith(HostId other) const {
  if (kind != EdgeKind::kOneToOne)
    return (!sources.empty() && to->hosts().Contains(other)) || (!destinations.empty() && from->hosts().Contains(other));
  const auto lies_there = [other](const Placement* placement) {
    return [placement, other](uint32_t shard) { return placement->HostOf(shard) == other; };
  };
  return std::any_of(sources.begin(), sources.end(), lies_there(to)) ||
         std::any_of(destinations.begin(), destinations.end(), lies_there(from));
}

bool EdgePlan::ReportsTo(HostId other) const {
  if (single) return false;
  const auto among = [other](const std::vector<HostId>& hosts) {
    return std::find(hosts.begin(), hosts.end(), other) != hosts.end();
  };
  if (direct) return among(report_to) || among(reporters);
  if (up_parent == other || down_parent == other || among(up_children)) return true;
  return std::any_of(down_children.begin(), down_children.end(), [&](uint32_t child) { return to->hosts().At(child) == other; });
}

void EdgePlan::PlanDirect() {
  if (kind == EdgeKind::kOneToOne) {
    report_to = HostsOf(*to, sources);
    reporters = HostsOf(*from, destinations);
    return;
  }
  if (!sources.empty()) report_to = All(to->hosts());
  if (!destinations.empty()) reporters = All(from->hosts());
}

void EdgePlan::PlanTrees(const ProgressKnobs& knobs) {
  const uint32_t fan_in = std::max(knobs.fan_in, 2u);
  down_root = to->hosts().At(0);
  up_root = from->hosts().At(0);
  if (std::optional<uint32_t> position = from->hosts().PositionOf(self)) {
    const ReportTree tree(from->hosts().size(), fan_in);
    if (std::optional<uint32_t> parent = tree.Parent(*position)) up_parent = from->hosts().At(*parent);
    for (uint32_t child : tree.Children(*position)) up_children.push_back(from->hosts().At(child));
  }
  if (std::optional<uint32_t> position = to->hosts().PositionOf(self)) {
    const ReportTree tree(to->hosts().size(), fan_in);
    if (std::optional<uint32_t> parent = tree.Parent(*position)) down_parent = to->hosts().At(*parent);
    down_children = tree.Children(*position);
  }
}

}  // namespace pw::dataflow
