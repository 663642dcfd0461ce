#include "pathways/controller/housekeeping/host_graph_cache.h"

#include <memory>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {
namespace {

using dataflow::EdgeKind;
using dataflow::NodeId;
using dataflow::Placement;
using Shape = HostGraphCache::Shape;

absl::StatusOr<std::shared_ptr<const dataflow::Graph>> MakeGraph(Shape shape, const std::string& op,
                                                                 const dataflow::HostSet& hosts) {
  const auto there = std::make_shared<const Placement>(Placement::OnePerHost(hosts));
  if (shape == Shape::kOrder) return dataflow::Graph::Create({{op, op, "", there}}, {}, dataflow::HostLoss::kConcernsNobody);
  if (shape == Shape::kAnswers) {
    const auto here = std::make_shared<const Placement>(Placement::OnHost(dataflow::kControllerHost, hosts.size()));
    return dataflow::Graph::Create({{op, op, "", there}, {"result", dataflow::kResultOp, "", here}},
                                   {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true, true}}, dataflow::HostLoss::kFailsShards);
  }
  const auto first = std::make_shared<const Placement>(Placement::OnHost(hosts.At(0)));
  const auto here = std::make_shared<const Placement>(Placement::OnHost(dataflow::kControllerHost));
  return dataflow::Graph::Create(
      {{op, op, "", there}, {"combine", "combine", "", first}, {"result", dataflow::kResultOp, "", here}},
      {{NodeId(0), NodeId(1), EdgeKind::kGather, true, true}, {NodeId(1), NodeId(2), EdgeKind::kOneToOne, true, true}});
}

// For gathered answers, all hosts report to the first host, which reports to the controller.
dataflow::ProgressKnobs KnobsOf(Shape shape, const dataflow::HostSet& hosts) {
  if (shape != Shape::kGathered) return dataflow::StarKnobs();
  return {.fan_in = hosts.size() + 1, .direct_pairs = hosts.size()};
}

}  // namespace

std::optional<dataflow::RunId> HostGraphCache::Start(Shape shape, const std::string& op, const dataflow::HostSet& hosts,
                                                     dataflow::RunOptions options) {
  const absl::StatusOr<dataflow::GraphId> graph = Over(shape, op, hosts);
  if (!graph.ok()) {
    PW_LOG_ERROR << "no graph for " << op << ": " << graph.status();
    return std::nullopt;
  }
  dataflow::OverlookFailedShards(options);
  return runtime_->Start(*graph, std::move(options));
}

absl::StatusOr<dataflow::GraphId> HostGraphCache::Over(Shape shape, const std::string& op, const dataflow::HostSet& hosts) {
  for (auto it = known_.begin(); it != known_.end(); ++it) {
    if (it->shape != shape || it->op != op || !(it->hosts == hosts)) continue;
    known_.splice(known_.begin(), known_, it);
    return it->graph;
  }
  PW_ASSIGN_OR_RETURN(std::shared_ptr<const dataflow::Graph> graph, MakeGraph(shape, op, hosts));
  PW_ASSIGN_OR_RETURN(const dataflow::GraphId id, runtime_->Install(std::move(graph), KnobsOf(shape, hosts)));
  known_.push_front({shape, op, hosts, id});
  if (known_.size() > kKept) {
    runtime_->Uninstall(known_.back().graph);
    known_.pop_back();
  }
  return id;
}

void HostGraphCache::HostLost(HostId host) {
  for (auto it = known_.begin(); it != known_.end();) {
    if (!it->hosts.Contains(host)) {
      ++it;
      continue;
    }
    runtime_->Uninstall(it->graph);
    it = known_.erase(it);
  }
}

}  // namespace pw::controller
