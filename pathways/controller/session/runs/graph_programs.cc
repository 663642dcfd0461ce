#include "pathways/controller/session/runs/graph_programs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/report_groups.h"
#include "pathways/controller/session/runs/sequential_run.h"
#include "pathways/ir/compile.h"

namespace pw::controller {

using program::NodeKind;

absl::Status GraphPrograms::Check(const program::Program& program, std::vector<DeviceId>* devices) const {
  std::set<DeviceId> all;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const program::Node& node = program.nodes[n];
    if (node.kind == NodeKind::kArg) {
      PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), context_->CheckSpec(*node.spec)));
      all.insert(node.spec->sharding.devices().begin(), node.spec->sharding.devices().end());
    } else if (node.kind == NodeKind::kTransfer) {
      const auto& sharding = program.proto->shardings(node.sharding);
      const std::vector<int32_t> numbers(sharding.devices().begin(), sharding.devices().end());
      std::vector<DeviceId> ids;
      for (int32_t number : numbers) ids.push_back(DeviceId(number));
      absl::Status status = context_->devices().Check(ids);
      if (status.ok() && !sharding.memory_kind().empty())
        status = fabric_->devices().MemoryKind(ids[0], sharding.memory_kind()).status();
      PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), status));
      all.insert(ids.begin(), ids.end());
    }
  }
  for (const auto& executable : program.proto->executables()) {
    for (int32_t number : executable.devices()) all.insert(DeviceId(number));
  }
  if (all.empty()) return absl::InvalidArgumentError(absl::StrCat("program ", program.name, " uses no device"));
  devices->assign(all.begin(), all.end());
  return absl::OkStatus();
}

absl::StatusOr<GraphPrograms::EntryRef> GraphPrograms::Make(program::Program program, Executables executables) {
  auto entry = std::make_shared<ProgramEntry>();
  PW_RETURN_IF_ERROR(Check(program, &entry->devices));  // again: hosts may have been lost meanwhile
  PW_RETURN_IF_ERROR(context_->devices().Check(entry->devices));
  PW_ASSIGN_OR_RETURN(entry->portable, ir::ImportProgram(program, executables));
  PW_RETURN_IF_ERROR(Lower(*entry, std::move(program), std::move(executables)));
  entry->id = fabric_->NextId();
  entry->arguments = MakeArguments(entry->program());
  entry->MakeStages(fabric_->gangs().scheduler().options());
  for (const auto& argument : entry->arguments) entry->any_donated = entry->any_donated || argument.donated;
  PW_RETURN_IF_ERROR(Load(*entry));
  return entry;
}

absl::StatusOr<GraphPrograms::EntryRef> GraphPrograms::MakeAnew(const ProgramEntry& old, Executables executables) {
  auto entry = std::make_shared<ProgramEntry>();
  entry->portable = old.portable;
  PW_RETURN_IF_ERROR(Lower(*entry, old.program(), std::move(executables)));
  entry->devices = old.devices;
  entry->MakeStages(fabric_->gangs().scheduler().options());
  entry->arguments = old.arguments;
  entry->any_donated = old.any_donated;
  PW_RETURN_IF_ERROR(Load(*entry));
  return entry;
}

namespace {

// A run needs all name slots, and one name by which it is known. It has an op, and so has each stage. In sequential dispatch a host has two
// ops for each command.
NameNeed NeedOf(const ProgramEntry& entry) {
  uint64_t commands = 0;
  for (const dispatch::LoweredHost& part : entry.lowered.hosts) commands = std::max<uint64_t>(commands, part.commands.size());
  uint64_t computes = 0;
  for (const program::Node& node : entry.program().nodes) computes += node.kind == NodeKind::kCompute ? 1 : 0;
  NameNeed need{2, 1};
  need += {entry.lowered.names, std::max(computes, 2 * commands)};
  return need;
}

}  // namespace

// Lowers the IR to a dataflow graph, for the current mapping.
absl::Status GraphPrograms::Lower(ProgramEntry& entry, program::Program program,
                                  std::vector<program::ExecutablePtr> executables) {
  PW_ASSIGN_OR_RETURN(const program::HostPrograms steps,
                      ir::LowerProgram(entry.portable, program, executables, fabric_->topology()));
  PW_ASSIGN_OR_RETURN(entry.lowered, dispatch::LowerProgram(steps, program, executables, fabric_->topology()));
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>();
  for (const auto& result : steps.results) specs->push_back(*result.spec);
  entry.typed = std::make_shared<program::TypedProgram>(
      program::TypedProgram{std::move(program), std::move(executables), std::move(specs)});
  entry.need = NeedOf(entry);
  return absl::OkStatus();
}

// In sequential dispatch, the hosts get the commands of each run one by one.
absl::Status GraphPrograms::Load(ProgramEntry& entry) {
  if (fabric_->sequential_dispatch() || entry.lowered.graph == nullptr) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(entry.graph, fabric_->InstallProgram(context_->id(), entry.lowered.graph));
  return absl::OkStatus();
}

void GraphPrograms::Unload(const ProgramEntry& entry) {
  for (ExecutableId id : entry.stages->ids()) fabric_->gangs().ForgetExecutable(id);
  if (entry.graph.has_value()) fabric_->UninstallProgram(context_->id(), *entry.graph);
}

absl::Status GraphPrograms::CheckLoaded(const ProgramEntry& entry) const {
  for (const dispatch::LoweredHost& part : entry.lowered.hosts) {
    if (fabric_->outbox().HasHost(part.host)) continue;
    PW_RETURN_IF_ERROR(context_->devices().Check(entry.devices));
    return absl::DataLossError(
        absl::StrCat("program ", entry.program().name, " is not on the hosts that its devices have now: compile it again"));
  }
  return absl::OkStatus();
}

void GraphPrograms::Start(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, std::vector<Record> args,
                          std::vector<Record> results, const std::shared_ptr<ExecuteRun>& run) {
  if (!fabric_->sequential_dispatch()) return SendRun(entry, std::move(names), args, results, run);
  const uint64_t key = names.NextId();
  runs_.insert({key, std::make_shared<ProgramRun>(ProgramRun{entry, {results.begin(), results.end()}, 1})});
  if (run != nullptr) ++run->missing;
  auto done = [this, alive = context_->alive(), key, run, fabric = fabric_](const absl::Status& status) {
    if (!alive.expired()) runs_.erase(key);
    if (run == nullptr) return;
    run->status.Update(status);
    if (--run->missing == 0) run->AnswerWaiter(*fabric);
  };
  std::make_shared<SequentialRun>(fabric_, context_->id(), std::move(names), context_->alive(), entry, std::move(args),
                                  std::move(results), std::move(done))
      ->Start();
}

void GraphPrograms::SendRun(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, const std::vector<Record>& args,
                            const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run) {
  auto underway = std::make_shared<ProgramRun>();
  underway->entry = entry;
  underway->results.assign(results.begin(), results.end());
  underway->left = entry->graph.has_value() ? static_cast<int>(entry->lowered.graph->hosts().size()) : 0;
  const uint64_t base = names.ReserveIds(entry->lowered.names + 1);
  if (underway->left > 0) runs_.insert({base, underway});  // a program without values has no host
  const bool joint = ReportGroups::Join(static_cast<size_t>(underway->left));
  absl::flat_hash_map<HostId, std::string> arguments;
  const OpId op = names.NextOpOfAll(joint);
  const uint64_t launches = entry->lowered.spans ? fabric_->ReserveIds(entry->lowered.names) : 0;
  const Stages stages = SubmitStages(*entry, names, args, results);
  for (size_t h = 0; h < entry->lowered.hosts.size(); ++h) {
    const dispatch::LoweredHost& part = entry->lowered.hosts[h];
    if (part.commands.empty()) continue;  // has an argument that nothing uses
    auto waiting = std::make_shared<WeakArrays>();
    for (uint32_t r : part.results) waiting->push_back(results[r]);
    if (run != nullptr) ++run->missing;
    const bool computes = stages.size() == 1 && entry->stages->planned()[0].executes[h] > 0;
    const gang::GangId only =
        computes ? stages[0].ticket.gang : gang::GangId();  // with several stages, each has an op of its own
    fabric_->ops().Add(
        part.host, op, std::move(waiting),
        [this, alive = context_->alive(), base, underway, run, fabric = fabric_](const absl::Status& status,
                                                                                 std::optional<double>) {
          if (--underway->left == 0 && !alive.expired()) runs_.erase(base);
          if (run == nullptr) return;
          run->status.Update(status);
          if (--run->missing == 0) run->AnswerWaiter(*fabric);
        },
        only);
    ::pathways::v1::ProgramRun message;
    message.set_op(op.v);
    message.set_base(base);
    message.set_launches(launches);
    AddStages(*entry, h, stages, &message);
    for (uint32_t k : part.args) message.add_args(args[k]->id().v);
    for (uint32_t k : part.results) message.add_results(results[k]->id().v);
    arguments[part.host] = message.SerializeAsString();
  }
  if (!arguments.empty()) fabric_->StartProgram(*entry->graph, std::move(arguments));
}

// Each stage is a gang that follows the previous one. The results are due from the last.
GraphPrograms::Stages GraphPrograms::SubmitStages(const ProgramEntry& entry, NameScope& names, const std::vector<Record>& args,
                                                  const std::vector<Record>& results) {
  Gangs& gangs = fabric_->gangs();
  const std::vector<ProgramStage>& stages =
      entry.stages->Plan({[&](ExecutableId id) {
                            // This is the prediction for unknown executables.
                            const int64_t ns = gangs.scheduler().PredictCost(id);
                            return ns == gangs.scheduler().options().default_cost_ns ? -1 : ns;
                          },
                          [&] { return ExecutableId(fabric_->NextId()); }});
  Stages submitted;
  std::vector<ArrayId> arg_ids, result_ids;
  for (const Record& arg : args) arg_ids.push_back(arg->id());
  for (const Record& result : results) result_ids.push_back(result->id());
  for (const ProgramStage& stage : stages) {
    Gangs::Launch launch{context_->id(), stage.id, stage.devices, stage.hosts, {}, {}, entry.any_donated};
    launch.args = arg_ids;
    launch.name = entry.program().name;
    if (submitted.size() + 1 == stages.size()) launch.results = result_ids;
    if (!submitted.empty()) launch.after = submitted.back().ticket.gang;
    submitted.push_back({gangs.Submit(launch), OpId()});
    if (stages.size() > 1) submitted.back().op = names.NextOpOfAll(ReportGroups::Join(stage.hosts.size()));
  }
  if (!stages.empty()) return submitted;
  for (ArrayId result : result_ids) {  // there are only copies
    for (ArrayId arg : arg_ids) gangs.Derive(context_->id(), result, {arg});
  }
  return submitted;
}

// Adds the stages to the message for host `h`. With several stages, each has an op of its own, which completes its gang.
void GraphPrograms::AddStages(const ProgramEntry& entry, size_t h, const Stages& submitted, ::pathways::v1::ProgramRun* message) {
  const HostId host = entry.lowered.hosts[h].host;
  const bool traced = fabric_->recorder().on();
  const std::vector<ProgramStage>& stages = entry.stages->planned();
  for (size_t s = 0; s < submitted.size(); ++s) {
    const bool executes = stages[s].executes[h] > 0;
    const Gangs::Ticket& ticket = submitted[s].ticket;
    OpId op(message->op());
    if (submitted.size() > 1) {
      op = executes ? submitted[s].op : OpId();
      if (executes) fabric_->ops().Add(host, op, nullptr, nullptr, ticket.gang);
      auto& stage = *message->add_stages();
      stage.set_op(op.v);
      stage.set_grant(ticket.grant());
      stage.set_executes(stages[s].executes[h]);
      if (traced) stage.set_gang(ticket.gang.v);
    } else {
      message->set_grant(ticket.grant());
      if (traced) message->set_gang(ticket.gang.v);
    }
    if (traced && executes) context_->Trace(host, op, entry.program().name, ticket.gang);
  }
  if (traced && submitted.size() != 1) context_->Trace(host, OpId(message->op()), entry.program().name);
}

// Pending results on these devices get the error, with the node that would have made them.
void GraphPrograms::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  for (uint64_t base : SortedKeys(runs_)) {
    const std::shared_ptr<ProgramRun> run = runs_.at(base);
    const ProgramEntry& entry = *run->entry;
    for (size_t r = 0; r < run->results.size(); ++r) {
      const buffers::LogicalArray::Ref result = run->results[r].lock();
      if (result == nullptr || result->settled()) continue;
      result->OnDevicesLost(lost, entry.program().At(entry.lowered.result_makers[r], error));
    }
  }
}

}  // namespace pw::controller
