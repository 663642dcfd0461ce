#include "pathways/controller/session/runs/loop_runs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "pathways/controller/hosts/report_groups.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::BeginLoop;
using ::pathways::v1::Command;
using ::pathways::v1::LoopLease;
using program::Node;
using program::NodeKind;

struct LoopRuns::Loop {
  EntryRef entry;
  int node = 0;
  EntryRef turn;  // the branch
  EntryRef part;  // the turn's only part: the graph that hosts run
  uint64_t op = 0;
  Hosts hosts;
  std::vector<HostId> executing;  // those of `hosts` with devices
  std::vector<DeviceId> devices;  // of all hosts, physical, ascending
  WeakArrays outputs;
  int left = 0;  // hosts that have not ended their part
  absl::Status error;
  gang::GangId last;     // the latest lease
  bool refused = false;  // no more leases
  std::function<void(const absl::Status&)> done;

  uint64_t carries() const { return static_cast<uint64_t>(entry->program().nodes[node].num_outputs); }
  uint64_t names_of_turn() const { return carries() + 1 + part->lowered.names; }
};

// Finds the hosts that have commands of a turn, and the devices that execute some.
void LoopRuns::FindHosts(const resource::Topology& topology, Loop& loop) {
  for (const dispatch::LoweredHost& host : loop.part->lowered.hosts) {
    if (!host.commands.empty()) loop.hosts[host.host];
  }
  std::set<DeviceId> devices;
  for (const Node& node : loop.part->program().nodes) {
    if (node.kind != NodeKind::kCompute) continue;
    const std::vector<DeviceId>& used = loop.part->typed->executables[static_cast<size_t>(node.executable)]->physical;
    devices.insert(used.begin(), used.end());
  }
  loop.devices.assign(devices.begin(), devices.end());
  for (DeviceId id : loop.devices) {
    const resource::Device* const device = topology.FindDevice(id);
    if (device != nullptr) loop.hosts[device->host].push_back(device->local_ordinal);
  }
  for (const auto& [host, ordinals] : loop.hosts) {
    if (!ordinals.empty()) loop.executing.push_back(host);
  }
}

void LoopRuns::Start(Call call) {
  auto loop = std::make_shared<Loop>();
  const ProgramEntry& entry = *call.entry;
  const Node& node = entry.program().nodes[call.node];
  loop->entry = call.entry;
  loop->node = call.node;
  loop->turn = {call.entry, entry.steps->branches[node.branches[0]].get()};
  loop->part = {call.entry, loop->turn->steps->parts[0].get()};
  loop->outputs.assign(call.outputs.begin(), call.outputs.end());
  loop->done = std::move(call.done);
  FindHosts(fabric_->topology(), *loop);
  loop->left = static_cast<int>(loop->hosts.size());
  loop->op = call.names.NextOpOfAll(ReportGroups::Join(loop->hosts.size())).v;
  loops_[loop->op] = loop;
  SendBegin(call, *loop, entry.steps->places[node.inputs[0]]->front().host);
  std::vector<ArrayId> args;
  for (const Record& input : call.inputs) args.push_back(input->id());
  Submit(loop, args);
  Submit(loop, {});
}

void LoopRuns::SendBegin(Call& call, Loop& loop, HostId leader) {
  const uint64_t base = call.names.ReserveIds(2 * loop.carries() + call.inputs.size());
  for (const dispatch::LoweredHost& host : loop.part->lowered.hosts) {
    if (!loop.hosts.contains(host.host)) continue;
    Command command;
    BeginLoop& begin = *command.mutable_begin_loop();
    begin = Describe(call, loop, host);
    begin.set_base(base);
    begin.set_leader(leader.v);
    if (host.host == leader) begin.set_predicate(call.inputs[0]->id().v);
    auto waiting = std::make_shared<WeakArrays>();
    for (const auto& carried : begin.carried()) waiting->push_back(call.outputs[carried.number()]);
    for (const auto& output : *waiting) output.lock()->Expect(1);
    const LoopRef self = loops_.at(loop.op);
    fabric_->ops().Add(host.host, OpId(loop.op), std::move(waiting),
                       [this, alive = context_->alive(), self](const absl::Status& status, std::optional<double>) {
                         if (!alive.expired()) OnHostEnd(self, status);
                       });
    if (fabric_->recorder().on()) context_->Trace(host.host, OpId(loop.op), loop.turn->program().name);
    fabric_->outbox().AddNow(host.host, std::move(command));
  }
}

// Returns the host's command, except what does not depend on the host.
BeginLoop LoopRuns::Describe(const Call& call, const Loop& loop, const dispatch::LoweredHost& host) const {
  const ProgramEntry& entry = *loop.entry;
  const Node& node = entry.program().nodes[loop.node];
  const auto constants = static_cast<uint32_t>(node.constants());
  BeginLoop begin;
  begin.set_op(loop.op);
  begin.set_session(context_->id().v);
  begin.set_graph(loop.part->graph->sequence);
  for (const auto& [id, devices] : loop.hosts) begin.add_hosts(id.v);
  begin.set_carries(static_cast<uint32_t>(loop.carries()));
  begin.set_names(loop.part->lowered.names);
  begin.set_location(entry.program().Describe(loop.node));
  for (uint32_t i = 0; i < loop.carries(); ++i) {
    const std::vector<ProgramEntry::Place>& places = *entry.steps->places[node.first_output + static_cast<int>(i)];
    if (std::none_of(places.begin(), places.end(), [&](const auto& place) { return place.host == host.host; })) continue;
    BeginLoop::Carried& carried = *begin.add_carried();
    carried.set_number(i);
    carried.set_initial(call.inputs[1 + constants + i]->id().v);
    carried.set_result(call.outputs[i]->id().v);
  }
  // The part has only the arguments that it uses.
  const program::Program& turn = loop.turn->program();
  const std::vector<int>& used = loop.turn->steps->cut.steps[0].inputs;
  for (uint32_t k : host.args) {
    const auto at = std::lower_bound(turn.args.begin(), turn.args.end(), turn.producer_of[used[k]]);
    const auto argument = static_cast<uint32_t>(at - turn.args.begin());
    BeginLoop::Argument& to = *begin.add_arguments();
    if (argument >= constants)
      to.set_carried(argument - constants);
    else
      to.set_constant(call.inputs[1 + argument]->id().v);
  }
  for (uint32_t r : host.results) begin.add_results(r);
  return begin;
}

void LoopRuns::Submit(const LoopRef& loop, std::vector<ArrayId> args) {
  if (loop->refused || loop->left == 0) return;
  const LeaseLength::Lease length = loop->turn->leases->Next([this] { return ExecutableId(fabric_->NextId()); });
  const SessionNames::Outside outside(&context_->names());
  NameScope& names = context_->names().now();
  LoopLease lease;
  lease.set_loop(loop->op);
  lease.set_session(context_->id().v);
  absl::Status status = context_->devices().Check(loop->entry->devices);
  for (const auto& [host, devices] : loop->hosts) {
    if (!fabric_->outbox().HasHost(host)) status.Update(fabric_->losses().Of(host));
  }
  status.Update(names.CheckRoom({length.turns * loop->names_of_turn(), 1}));
  if (!status.ok()) {
    loop->refused = true;
    session::ToProto(loop->entry->program().At(loop->node, status), lease.mutable_refused());
    return SendLease(loop, lease, {});
  }
  lease.set_turns(length.turns);
  lease.set_base(names.ReserveIds(length.turns * loop->names_of_turn()));
  lease.set_op(names.NextOpOfAll(ReportGroups::Join(loop->executing.size())).v);
  if (loop->part->lowered.spans) lease.set_launches(fabric_->ReserveIds(length.turns * loop->part->lowered.names));
  Gangs::Launch launch{context_->id(), length.id, loop->devices, loop->executing, args, {}, /*donates=*/false};
  launch.after = loop->last;
  launch.name = loop->turn->program().name;
  const Gangs::Ticket ticket = fabric_->gangs().Submit(launch);
  loop->last = ticket.gang;
  SendLease(loop, lease, ticket);
}

void LoopRuns::SendLease(const LoopRef& loop, const LoopLease& lease, const Gangs::Ticket& ticket) {
  auto left = std::make_shared<int>(static_cast<int>(loop->executing.size()));
  for (const auto& [host, devices] : loop->hosts) {
    if (!fabric_->outbox().HasHost(host)) continue;
    Command command;
    LoopLease& mine = *command.mutable_loop_lease() = lease;
    if (!lease.has_refused()) {
      mine.set_gang(ticket.gang.v);
      mine.set_granted(ticket.granted);
      mine.mutable_devices()->Add(devices.begin(), devices.end());
    }
    if (devices.empty()) mine.clear_op();
    if (mine.op() != 0) {
      fabric_->ops().Add(
          host, OpId(lease.op()), nullptr,
          [this, alive = context_->alive(), loop, left](const absl::Status&, std::optional<double> turn_microseconds) {
            if (!alive.expired()) OnLeaseEnd(loop, left, turn_microseconds);
          },
          ticket.gang);
    }
    fabric_->outbox().AddNow(host, std::move(command));
  }
}

void LoopRuns::OnLeaseEnd(const LoopRef& loop, const std::shared_ptr<int>& left, std::optional<double> turn_microseconds) {
  if (turn_microseconds.has_value()) loop->turn->leases->Learn(*turn_microseconds * 1000);
  if (--*left > 0 || loop->left == 0) return;
  // Not inside of the end of an op, whose gang is not done yet.
  fabric_->Post([this, alive = context_->alive(), loop] {
    if (!alive.expired()) Submit(loop, {});
  });
}

void LoopRuns::OnHostEnd(const LoopRef& loop, const absl::Status& status) {
  loop->error.Update(status);
  if (--loop->left > 0) return;
  loops_.erase(loop->op);
  std::exchange(loop->done, nullptr)(loop->error);
}

void LoopRuns::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  for (const auto& [op, loop] : loops_) {
    const absl::Status located = loop->entry->program().At(loop->node, error);
    for (const auto& weak : loop->outputs) {
      if (const auto output = weak.lock(); output != nullptr && !output->settled()) output->OnDevicesLost(lost, located);
    }
  }
}

}  // namespace pw::controller
