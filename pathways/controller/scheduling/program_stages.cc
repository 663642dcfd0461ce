#include "pathways/controller/scheduling/program_stages.h"

#include <algorithm>
#include <limits>
#include <set>

namespace pw::controller {

namespace {

int64_t NsOf(const ProgramStage& stage, const ProgramStages::Costs& costs) {
  const int64_t ns = costs.predict(stage.id);
  return ns < 0 ? stage.expected_ns : ns;
}

}  // namespace

ProgramStages::ProgramStages(const program::TypedProgram* typed, const dispatch::LoweredProgram* lowered, int64_t limit_ns,
                             int64_t default_ns)
    : typed_(typed), lowered_(lowered), limit_ns_(std::max<int64_t>(limit_ns, 1)) {
  for (size_t n = 0; n < typed->program.nodes.size(); ++n) {
    if (typed->program.nodes[n].kind == program::NodeKind::kCompute) computes_.push_back(static_cast<int>(n));
  }
  node_ns_.assign(computes_.size(), default_ns);
}

const std::vector<ProgramStage>& ProgramStages::Plan(const Costs& costs) {
  if (!stages_.empty() && !Settled(costs)) {
    Learn(costs);
    stages_.clear();
  }
  if (stages_.empty()) Cut(costs);
  return stages_;
}

bool ProgramStages::Settled(const Costs& costs) const {
  int64_t total = 0;
  for (const ProgramStage& stage : stages_) {
    const int64_t ns = NsOf(stage, costs);
    if (stage.nodes > 1 && ns > 2 * limit_ns_) return false;
    total += ns;
  }
  const auto count = static_cast<int64_t>(stages_.size());
  return count == 1 || 2 * (total / limit_ns_ + 1) > count;
}

void ProgramStages::Learn(const Costs& costs) {
  size_t k = 0;
  for (const ProgramStage& stage : stages_) {
    const int64_t each = NsOf(stage, costs) / stage.nodes;
    for (int i = 0; i < stage.nodes; ++i) node_ns_[k++] = each;
  }
}

void ProgramStages::Cut(const Costs& costs) {
  int first_node = 0;
  for (size_t k = 0; k < computes_.size();) {
    ProgramStage stage;
    do {
      stage.expected_ns += node_ns_[k];
      ++stage.nodes;
      ++k;
    } while (k < computes_.size() && stage.expected_ns + node_ns_[k] <= limit_ns_);
    const int end_node = k < computes_.size() ? computes_[k] : std::numeric_limits<int>::max();
    AddHosts(&stage, first_node, end_node);
    std::set<DeviceId> devices;
    for (size_t i = k - static_cast<size_t>(stage.nodes); i < k; ++i) {
      const program::Node& node = typed_->program.nodes[static_cast<size_t>(computes_[i])];
      const std::vector<DeviceId>& used = typed_->executables[static_cast<size_t>(node.executable)]->physical;
      devices.insert(used.begin(), used.end());
    }
    stage.devices.assign(devices.begin(), devices.end());
    stage.id = costs.new_id();
    ids_.push_back(stage.id);
    stages_.push_back(std::move(stage));
    first_node = end_node;
  }
}

void ProgramStages::AddHosts(ProgramStage* stage, int first_node, int end_node) const {
  for (const dispatch::LoweredHost& part : lowered_->hosts) {
    const auto begin = std::lower_bound(part.node_of.begin(), part.node_of.end(), first_node);
    const auto end = std::lower_bound(begin, part.node_of.end(), end_node);
    const auto at = part.commands.begin() + (begin - part.node_of.begin());
    const auto executes = std::count_if(at, at + (end - begin), [](const auto& command) { return command.has_execute(); });
    stage->executes.push_back(static_cast<uint32_t>(executes));
    if (executes > 0) stage->hosts.push_back(part.host);
  }
}

}  // namespace pw::controller
