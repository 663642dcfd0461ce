// The runtime's reactions to lost hosts, and to broken ways between hosts.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/dataflow/runtime.h"

namespace pw::dataflow {

// Returns the status of a lost host among `hosts`, or OK.
absl::Status Runtime::LostAmong(const HostSet& hosts) const {
  for (HostId host : SortedKeys(lost_)) {
    if (hosts.Contains(host)) return lost_.at(host);
  }
  return absl::OkStatus();
}

// Returns the status of a lost host that the plan's runs cannot do without, or OK.
absl::Status Runtime::CheckHosts(const HostPlan& plan) const {
  return plan.outlives_hosts() ? absl::OkStatus() : LostAmong(plan.hosts());
}

// Returns the runs here, and those of this coordinator that have not begun.
std::vector<RunId> Runtime::LiveRuns() const {
  std::set<RunId> live;
  for (const auto& [id, run] : runs_) live.insert(id);
  for (const auto& [sequence, own] : own_runs_) live.insert({environment_.self, sequence});
  return {live.begin(), live.end()};
}

// Returns null if the run is over, or has never been here.
const HostPlan* Runtime::PlanOf(RunId id) const {
  if (auto it = runs_.find(id); it != runs_.end()) return &it->second->plan();
  auto own = IsOwn(id) ? own_runs_.find(id.sequence) : own_runs_.end();
  return own == own_runs_.end() ? nullptr : own->second.plan.get();
}

void Runtime::OnPeerLost(HostId host, const absl::Status& reason) {
  const absl::Status status = UnreachableHostError(host, absl::StrCat("lost ", ToString(host), ": ", reason.message()));
  if (!lost_.emplace(host, status).second) return;
  retired_.AddAll(host);
  early_.DropBefore(host, UINT64_MAX);
  absl::erase_if(graphs_, [&](const auto& entry) { return entry.first.coordinator == host; });
  DropQueues(host);
  Leave(host, status, {}, [host](const HostPlan& plan) { return plan.hosts().Contains(host); });
}

// Both sides drop their LinkFlow, so windows and credits start afresh. The other side may have missed graphs, so it gets them again. If
// messages have gone this way, the coordinators of runs that are over here are told too: the other side may be about to begin these runs.
void Runtime::OnPeerBroken(HostId host, const absl::Status& reason) {
  if (lost_.contains(host)) return;
  const absl::Status status = UnreachableHostError(
      host, absl::StrCat("the way between ", ToString(environment_.self), " and ", ToString(host), " broke: ", reason.message()));
  const bool used = flows_.contains(host) || batcher_.waiting_bytes(host, true) + batcher_.waiting_bytes(host, false) > 0;
  const std::vector<HostId> coordinators = used ? retired_.Coordinators() : std::vector<HostId>();
  DropQueues(host);
  for (GraphId id : SortedKeys(graphs_)) {
    const HostPlan& plan = *graphs_.at(id);
    if (id.coordinator == environment_.self && plan.hosts().Contains(host)) SendInstall(host, id, plan);
  }
  // A coordinator sends every host the start of a run, and an end if it ends early.
  Leave(host, status, {coordinators.begin(), coordinators.end()}, [host](const HostPlan& plan) {
    return plan.coordinator() == plan.self() ? plan.hosts().Contains(host) : plan.TalksTo(host);
  });
}

void Runtime::DropQueues(HostId host) {
  flows_.erase(host);
  early_.VoidCredit(host);
  batcher_.Drop(host);
}

// `coordinators`: to be told.
void Runtime::Leave(HostId host, const absl::Status& status, std::set<HostId> coordinators,
                    absl::FunctionRef<bool(const HostPlan&)> concerned) {
  const bool outer = std::exchange(busy_, true);
  for (RunId id : LiveRuns()) {
    const HostPlan* const plan = PlanOf(id);
    if (plan == nullptr || (id.coordinator != host && !concerned(*plan))) continue;
    if (id.coordinator == host || !plan->outlives_hosts()) {
      EndEarly(id, status);
    } else if (IsOwn(id)) {
      LeaveRun(id, host, status);
    } else {
      if (plan->TalksTo(host)) coordinators.insert(id.coordinator);  // the host may wait for this one too
      FailShardsOn(host, id, status);
    }
  }
  coordinators.erase(host);
  for (HostId coordinator : coordinators) SendControl(coordinator, BrokenMessage{host, status});
  busy_ = outer;
  room_changed_ = true;  // for shards that wait to send there
  Settle();
}

// A run of this coordinator goes on without the host.
void Runtime::LeaveRun(RunId id, HostId host, const absl::Status& status) {
  auto own = own_runs_.find(id.sequence);
  if (own == own_runs_.end() || !own->second.left.emplace(host, status).second) return;
  SendControl(host, EndMessage{id, status});
  SendControl(own->second.plan->whole().ReadersOf(host), LostMessage{id, host, status});
  FailShardsOn(host, id, status);
}

void Runtime::FailShardsOn(HostId host, RunId id, const absl::Status& status) {
  auto it = runs_.find(id);
  if (it == runs_.end()) return;
  it->second->LoseHost(host, status);
  EndIfOver(id);
}

// Fails the shards of lost hosts in a run that begins here, if the run outlives its hosts.
void Runtime::FailLostHosts(RunId id) {
  const HostPlan* const plan = PlanOf(id);
  if (plan == nullptr || !plan->outlives_hosts()) return;
  std::map<HostId, absl::Status> left;
  for (const auto& [host, status] : lost_) {
    if (plan->hosts().Contains(host)) left.emplace(host, status);
  }
  if (auto own = IsOwn(id) ? own_runs_.find(id.sequence) : own_runs_.end(); own != own_runs_.end())
    left.insert(own->second.left.begin(), own->second.left.end());
  for (const auto& [host, status] : left) {
    if (!IsOwn(id) && plan->TalksTo(host)) SendControl(id.coordinator, BrokenMessage{host, status});
    if (IsOwn(id)) LeaveRun(id, host, status);
    FailShardsOn(host, id, status);
  }
}

// The sender and the host may wait for each other in runs of this coordinator. The sender knows of the break; the host is told.
void Runtime::TakeBroken(HostId from, const BrokenMessage& message) {
  if (message.host == environment_.self || message.host == from) return;
  for (RunId id : LiveRuns()) {
    const HostPlan* const plan = IsOwn(id) ? PlanOf(id) : nullptr;
    if (plan == nullptr || !plan->hosts().Contains(from) || !plan->hosts().Contains(message.host)) continue;
    if (!plan->TalkToEachOther(from, message.host)) continue;
    if (plan->outlives_hosts()) {
      SendControl(message.host, LostMessage{id, from, message.status});
    } else {
      EndEarly(id, message.status);
    }
  }
}

void Runtime::TakeLost(HostId from, const LostMessage& message) {
  const HostPlan* const plan = from == message.run.coordinator ? PlanOf(message.run) : nullptr;
  if (plan == nullptr || !plan->outlives_hosts() || !plan->hosts().Contains(message.host)) return;
  if (message.host != environment_.self && message.host != from) FailShardsOn(message.host, message.run, message.status);
}

}  // namespace pw::dataflow
