#include "pathways/controller/host_graphs.h"

#include <memory>

#include "pathways/base/status_macros.h"

namespace pw::controller {

absl::StatusOr<dataflow::GraphId> HostGraphs::Over(const std::string& op, const dataflow::HostSet& hosts) {
  for (auto it = known_.begin(); it != known_.end(); ++it) {
    if (it->op != op || !(it->hosts == hosts)) continue;
    known_.splice(known_.begin(), known_, it);
    return it->graph;
  }
  const auto there = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnePerHost(hosts));
  const auto here =
      std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(dataflow::kControllerHost, hosts.size()));
  PW_ASSIGN_OR_RETURN(std::shared_ptr<const dataflow::Graph> graph,
                      dataflow::Graph::Create({{op, op, "", there}, {"result", dataflow::kResultOp, "", here}},
                                              {{dataflow::NodeId(0), dataflow::NodeId(1), dataflow::EdgeKind::kOneToOne, true}}));
  PW_ASSIGN_OR_RETURN(const dataflow::GraphId id, runtime_->Install(std::move(graph)));
  known_.push_front({op, hosts, id});
  if (known_.size() > kKept) {
    runtime_->Uninstall(known_.back().graph);
    known_.pop_back();
  }
  return id;
}

void HostGraphs::HostLost(HostId host) {
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
