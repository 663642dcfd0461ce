#include "pathways/controller/housekeeping.h"

#include <utility>
#include <vector>

#include "pathways/base/status_macros.h"

namespace pw::controller {

using ::pathways::v1::MemoryReport;

struct Housekeeping::Gathering {
  MemoryByHost memory;
  absl::AnyInvocable<void(MemoryByHost) &&> done;  // empty once called
  std::optional<dataflow::RunId> run;              // the present one
};

Housekeeping::Housekeeping(dispatch::Outbox* outbox, Executor* strand, Clock* clock, Timers* timers, DataflowLinks::Lose lose)
    : strand_(strand),
      timers_(timers),
      links_(outbox, strand, std::move(lose)),
      runtime_({dataflow::kControllerHost, strand, clock, timers, &links_, nullptr}, {.progress = dataflow::StarKnobs()}) {}

void Housekeeping::SetHosts(std::set<HostId> hosts) {
  changed_ = changed_ || hosts != hosts_;
  hosts_ = std::move(hosts);
}

void Housekeeping::RemoveHost(HostId host, const absl::Status& reason) {
  changed_ = hosts_.erase(host) > 0 || changed_;
  links_.RemoveHost(host, reason);
}

absl::Status Housekeeping::InstallIfChanged() {
  if (!std::exchange(changed_, false)) return absl::OkStatus();
  if (memory_graph_.has_value()) runtime_.Uninstall(*std::exchange(memory_graph_, std::nullopt));
  std::vector<dataflow::HostSet::Interval> intervals;
  for (HostId host : hosts_) intervals.push_back({host, 1});
  installed_hosts_ = dataflow::HostSet(std::move(intervals));
  if (hosts_.empty()) return absl::OkStatus();
  const auto there = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnePerHost(installed_hosts_));
  const auto here = std::make_shared<const dataflow::Placement>(
      dataflow::Placement::OnHost(dataflow::kControllerHost, installed_hosts_.size()));
  PW_ASSIGN_OR_RETURN(std::shared_ptr<const dataflow::Graph> graph,
                      dataflow::Graph::Create({{"memory", "memory", "", there}, {"result", dataflow::kResultOp, "", here}},
                                              {{dataflow::NodeId(0), dataflow::NodeId(1), dataflow::EdgeKind::kOneToOne, true}}));
  PW_ASSIGN_OR_RETURN(memory_graph_, runtime_.Install(std::move(graph)));
  return absl::OkStatus();
}

void Housekeeping::GatherMemory(absl::Duration timeout, absl::AnyInvocable<void(MemoryByHost) &&> done) {
  auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  timers_->After(timeout, strand_, [this, alive = std::weak_ptr<bool>(alive_), gathering] {
    if (alive.expired() || !gathering->run.has_value()) return;
    runtime_.Cancel(*gathering->run, absl::DeadlineExceededError("not all hosts have answered in time"));
  });
  Ask(gathering);
}

void Housekeeping::Ask(const std::shared_ptr<Gathering>& gathering) {
  absl::Status status = InstallIfChanged();
  if (!status.ok() || !memory_graph_.has_value()) return Asked(gathering, absl::CancelledError("there is no host to ask"));
  dataflow::RunOptions options;
  options.on_tuple = [gathering, hosts = installed_hosts_](dataflow::NodeId, uint32_t shard, dataflow::Tuple tuple) {
    MemoryReport report;
    if (report.ParseFromArray(tuple.data.data(), static_cast<int>(tuple.size()))) gathering->memory[hosts.At(shard)] = report;
  };
  options.on_closed = [](dataflow::NodeId, uint32_t, const absl::Status&) {};  // a host that failed is missing, which is all
  options.on_done = [this, gathering](const absl::Status& done) { Asked(gathering, done); };
  gathering->run = runtime_.Start(*memory_graph_, std::move(options));
}

// A host was lost meanwhile: the others are asked again.
void Housekeeping::Asked(const std::shared_ptr<Gathering>& gathering, const absl::Status& status) {
  gathering->run = std::nullopt;
  if (status.code() == absl::StatusCode::kUnavailable && changed_) {
    strand_->Post([this, alive = std::weak_ptr<bool>(alive_), gathering] {
      if (!alive.expired()) Ask(gathering);
    });
    return;
  }
  auto done = std::exchange(gathering->done, nullptr);
  if (done) std::move(done)(std::move(gathering->memory));
}

}  // namespace pw::controller
