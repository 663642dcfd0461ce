#include "pathways/controller/session/runs/choice_runs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pathways/controller/hosts/report_groups.h"

namespace pw::controller {

using ::pathways::v1::BeginChoice;
using ::pathways::v1::Command;

bool ChoiceRuns::HostsChoose(const ProgramEntry& entry, const HostChoice& choice) const {
  constexpr uint32_t kMeasureAnew = 16;  // of this number of calls, one
  if (!context_->devices().Check(entry.devices).ok()) return false;
  for (const auto& [host, command] : choice.commands) {
    if (!fabric_->outbox().HasHost(host)) return false;
  }
  const gang::Scheduler& scheduler = fabric_->gangs().scheduler();
  if (choice.computes < 2 || scheduler.PredictCost(choice.id) <= ProgramEntry::MostNs(scheduler.options())) return true;
  return ++choice.calls % kMeasureAnew == 0;
}

void ChoiceRuns::Start(Call call) {
  const HostChoice& plan = call.choice;
  auto choice = std::make_shared<Choice>();
  choice->entry = call.entry;
  choice->node = call.node;
  choice->outputs.assign(call.outputs.begin(), call.outputs.end());
  choice->left = static_cast<int>(plan.commands.size());
  choice->done = std::move(call.done);
  BeginChoice run;
  run.set_op(call.names.NextOpOfAll(ReportGroups::Join(plan.commands.size())).v);
  run.set_session(context_->id().v);
  run.set_base(call.names.ReserveIds(plan.slots));
  if (plan.spans) run.set_launches(fabric_->ReserveIds(plan.slots));
  choices_[run.op()] = choice;
  std::vector<ArrayId> args, results;
  for (const Record& input : call.inputs) args.push_back(input->id());
  for (const Record& output : call.outputs) results.push_back(output->id());
  Gangs::Launch launch{context_->id(), plan.id, plan.devices, plan.executing, args, results, /*donates=*/false};
  launch.name = call.entry->program().name;
  const Gangs::Ticket ticket = fabric_->gangs().Submit(launch);
  run.set_gang(ticket.gang.v);
  run.set_granted(ticket.granted);
  for (const auto& [host, command] : plan.commands) {
    BeginChoice message = command;
    message.MergeFrom(run);
    Send(call, choice, host, std::move(message), ticket.gang);
  }
}

void ChoiceRuns::Send(const Call& call, const ChoiceRef& choice, HostId host, BeginChoice command, gang::GangId gang) {
  auto waiting = std::make_shared<WeakArrays>();
  for (BeginChoice::Array& input : *command.mutable_inputs()) input.set_array(call.inputs[input.array()]->id().v);
  for (BeginChoice::Array& output : *command.mutable_outputs()) {
    const Record& array = call.outputs[output.array()];
    output.set_array(array->id().v);
    array->Expect(1);
    waiting->push_back(array);
  }
  const bool executes = command.devices_size() > 0;
  fabric_->ops().Add(
      host, OpId(command.op()), std::move(waiting),
      [this, alive = context_->alive(), choice, op = command.op()](const absl::Status& status, std::optional<double>) {
        if (!alive.expired()) OnHostEnd(choice, op, status);
      },
      executes ? gang : gang::GangId());
  if (fabric_->recorder().on()) context_->Trace(host, OpId(command.op()), call.entry->program().name);
  Command to_host;
  *to_host.mutable_begin_choice() = std::move(command);
  fabric_->outbox().AddNow(host, std::move(to_host));
}

void ChoiceRuns::OnHostEnd(const ChoiceRef& choice, uint64_t op, const absl::Status& status) {
  choice->error.Update(status);
  if (--choice->left > 0) return;
  choices_.erase(op);
  std::exchange(choice->done, nullptr)(choice->error);
}

void ChoiceRuns::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  for (const auto& [op, choice] : choices_) {
    const absl::Status located = choice->entry->program().At(choice->node, error);
    for (const auto& weak : choice->outputs) {
      if (const auto output = weak.lock(); output != nullptr && !output->settled()) output->OnDevicesLost(lost, located);
    }
  }
}

}  // namespace pw::controller
