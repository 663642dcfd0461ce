#include "pathways/controller/session/runs/steps_maker.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/runs/choice_plan.h"

namespace pw::controller {
namespace {

using program::Node;
using program::NodeKind;
using program::Step;

absl::Status CheckSame(const Fabric& fabric, const buffers::ArraySpec& is, const buffers::ArraySpec& wanted,
                       const std::string& what) {
  const auto kind = [&](const buffers::ArraySpec& spec) {
    return fabric.devices().MemoryKind(spec.sharding.devices()[0], spec.sharding.memory_kind()).value_or("");
  };
  if (Fits(is, wanted) && kind(is) == kind(wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", buffers::ToString(is), " instead of ", buffers::ToString(wanted),
                                                 ", or is on other devices or in another kind of memory"));
}

// Returns the specs of the program's results, which its parts make, and sets the hosts of each.
std::shared_ptr<const std::vector<buffers::ArraySpec>> FindResults(const ProgramEntry::Steps& steps, size_t count,
                                                                   dispatch::LoweredProgram& lowered) {
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>(count);
  lowered.result_hosts.resize(count);
  lowered.result_makers.resize(count);
  for (const Step& step : steps.cut.steps) {
    for (size_t i = 0; i < step.results.size(); ++i) {
      const ProgramEntry& part = *steps.parts[step.part];
      (*specs)[step.results[i]] = *part.result_spec(step.outputs.size() + i);
      lowered.result_hosts[step.results[i]] = part.lowered.result_hosts[step.outputs.size() + i];
    }
  }
  return specs;
}

// Returns whether the node is one command to each of its hosts.
bool IsCommand(const Node& node) { return node.kind == NodeKind::kHostCompute || node.kind == NodeKind::kRoute; }

}  // namespace

absl::StatusOr<StepsMaker::EntryRef> StepsMaker::Make(program::Program program, const Executables& executables,
                                                      std::vector<EntryRef> branches, bool is_branch, program::CutRoom& room) {
  auto entry = std::make_shared<ProgramEntry>();
  auto steps = std::make_unique<ProgramEntry::Steps>();
  PW_ASSIGN_OR_RETURN(steps->cut, program::CutProgram(program, executables, is_branch, room));
  steps->branches = std::move(branches);
  PW_RETURN_IF_ERROR(MakeParts(*steps, executables));
  PW_RETURN_IF_ERROR(FindPlaces(program, *steps, &entry->devices));
  if (entry->devices.empty()) return absl::InvalidArgumentError(absl::StrCat("program ", program.name, " uses no device"));
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), CheckWaiting(program.nodes[n], *steps)));
  }
  PW_RETURN_IF_ERROR(InstallRoutes(program, *steps));
  PlanChoices(program, *steps);
  OpenLanes(program, *steps);
  auto specs = FindResults(*steps, program.results.size(), entry->lowered);
  entry->id = fabric_->NextId();
  entry->arguments = MakeArguments(program);
  for (const auto& argument : entry->arguments) entry->any_donated = entry->any_donated || argument.donated;
  entry->typed =
      std::make_shared<program::TypedProgram>(program::TypedProgram{std::move(program), executables, std::move(specs)});
  entry->need = CountNames(entry->program(), entry->arguments.size(), *steps);
  entry->steps = std::move(steps);
  return entry;
}

absl::StatusOr<StepsMaker::EntryRef> StepsMaker::MakeTurn(program::Program program, const Executables& executables,
                                                          program::CutRoom& room) {
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    if (!program.nodes[n].waits()) continue;
    return program.At(
        static_cast<int>(n),
        absl::UnimplementedError("callbacks, choices, functions on hosts and other loops cannot be in a turn of a loop"));
  }
  PW_ASSIGN_OR_RETURN(EntryRef entry, Make(std::move(program), executables, {}, /*is_branch=*/false, room));
  const auto& nodes = entry->program().nodes;
  const auto computes =
      std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.kind == NodeKind::kCompute; });
  if (entry->steps->parts.size() != 1 || computes == 0)
    return absl::InvalidArgumentError(absl::StrCat("a turn of loop ", entry->program().name, " computes nothing"));
  constexpr uint64_t kMostTurns = 4096;
  const uint64_t names = entry->program().results.size() + entry->steps->parts[0]->lowered.names;  // of a turn
  const gang::Options& gangs = fabric_->gangs().scheduler().options();
  entry->leases = std::make_unique<LeaseLength>(ProgramEntry::MostNs(gangs), computes * gangs.default_cost_ns,
                                                std::min(kMostTurns, RequestName::kOwnBlock / names));
  entry->on_gone = [fabric = fabric_, alive = context_->alive(), raw = entry.get()] {
    if (alive.expired()) return;
    for (ExecutableId id : raw->leases->ids()) fabric->gangs().ForgetExecutable(id);
  };
  return entry;
}

// Counts what ProgramSteps and StepArrays make, in whatever way the program is dispatched. Arguments and results of the run may get names
// of their own. A part makes results, and a function on hosts or a route too, by one command. Of another waiting node, each input may be named anew or fetched;
// each output is an array of its own, gets another one that fulfils it, maybe by a transfer, and two commands; a branch has a stream. If hosts
// choose, the choice has one command, and a name for each slot. A loop has one command, and three names for each input; its turns have names that no request gives.
NameNeed StepsMaker::CountNames(const program::Program& program, size_t arguments, ProgramEntry::Steps& steps) {
  const uint64_t own = arguments + program.results.size();
  NameNeed all{own, own};
  for (const Step& step : steps.cut.steps) {
    NameNeed need{step.outputs.size(), 0};
    if (step.part >= 0) {
      need += steps.parts[step.part]->need;
    } else if (IsCommand(program.nodes[step.node])) {
      need += {0, 1};
    } else if (program.nodes[step.node].kind == NodeKind::kWhile) {
      need += {3 * step.inputs.size(), 1};
    } else {
      need = {step.inputs.size() + 3 * step.outputs.size() + 1, step.inputs.size() + 2 * step.outputs.size()};
      need += steps.LargestOf(program.nodes[step.node].branches);
      if (const auto& choice = steps.choices[steps.needs.size()]; choice != nullptr) need += {choice->slots, 1};
    }
    steps.needs.push_back(need);
    all += need;
  }
  return all;
}

absl::Status StepsMaker::MakeParts(ProgramEntry::Steps& steps, const Executables& executables) {
  for (program::Part& part : steps.cut.parts) {
    Executables used;
    for (int executable : part.executables) used.push_back(executables[executable]);
    PW_ASSIGN_OR_RETURN(EntryRef made, graphs_->Make(std::move(part.program), std::move(used)));
    made->on_gone = [graphs = graphs_, alive = context_->alive(), raw = made.get()] {
      if (!alive.expired()) graphs->Unload(*raw);
    };
    steps.parts.push_back(std::move(made));
  }
  return absl::OkStatus();
}

absl::Status StepsMaker::InstallRoutes(const program::Program& program, ProgramEntry::Steps& steps) const {
  for (const Step& step : steps.cut.steps) {
    std::shared_ptr<InstalledRoute> route;
    if (step.node >= 0 && program.nodes[step.node].kind == NodeKind::kRoute) {
      route = std::make_shared<InstalledRoute>();
      PW_ASSIGN_OR_RETURN(route->plan,
                          dispatch::PlanRoute(program.nodes[step.node], program.Describe(step.node), fabric_->topology()));
      PW_ASSIGN_OR_RETURN(route->graph, fabric_->InstallProgram(context_->id(), route->plan.graph));
      route->on_gone = [fabric = fabric_, session = context_->id(), graph = route->graph, alive = context_->alive()] {
        if (!alive.expired()) fabric->UninstallProgram(session, graph);
      };
    }
    steps.routes.push_back(std::move(route));
  }
  return absl::OkStatus();
}

void StepsMaker::PlanChoices(const program::Program& program, ProgramEntry::Steps& steps) const {
  for (const Step& step : steps.cut.steps) {
    std::shared_ptr<HostChoice> choice;
    if (step.node >= 0 && program.nodes[step.node].kind == NodeKind::kSelect && !fabric_->sequential_dispatch())
      choice = PlanChoice(steps, program, step, fabric_->topology());
    if (choice != nullptr) {
      choice->id = ExecutableId(fabric_->NextId());
      choice->on_gone = [fabric = fabric_, id = choice->id, alive = context_->alive()] {
        if (!alive.expired()) fabric->gangs().ForgetExecutable(id);
      };
    }
    steps.choices.push_back(std::move(choice));
  }
}

// Finds the places of all values (WN-2). `devices`: gets all devices of the program, ascending.
absl::Status StepsMaker::FindPlaces(const program::Program& program, ProgramEntry::Steps& steps,
                                    std::vector<DeviceId>* devices) const {
  const auto add = [devices](const std::vector<DeviceId>& more) { devices->insert(devices->end(), more.begin(), more.end()); };
  for (const EntryRef& part : steps.parts) add(part->devices);
  std::vector<int> branches;
  for (const Node& node : program.nodes) branches.insert(branches.end(), node.branches.begin(), node.branches.end());
  SortAndMerge(branches);
  for (int branch : branches) add(steps.branches[branch]->devices);
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::kHostCompute) continue;
    for (int32_t number : program.proto->executables(node.executable).devices()) {  // also those of a function without arrays
      PW_ASSIGN_OR_RETURN(const resource::Device* device, fabric_->topology().GetDevice(DeviceId(number)));
      devices->push_back(device->id);
      steps.hosts.push_back(device->host);
    }
  }
  // Many values share one list of devices: its places are looked up once.
  absl::flat_hash_map<const std::vector<DeviceId>*, ProgramEntry::Steps::Places> known;
  for (const SessionContext::SpecPtr& spec : steps.cut.specs) {
    PW_RETURN_IF_ERROR(context_->CheckSpec(*spec));
    ProgramEntry::Steps::Places& places = known[&spec->sharding.devices()];
    if (places == nullptr) {
      auto found = std::make_shared<std::vector<ProgramEntry::Place>>();
      for (DeviceId id : spec->sharding.devices()) {
        const resource::Device& device = *fabric_->topology().FindDevice(id);
        found->push_back({device.host, device.local_ordinal});
        steps.hosts.push_back(device.host);
      }
      add(spec->sharding.devices());
      places = std::move(found);
    }
    steps.places.push_back(places);
  }
  SortAndMerge(*devices);
  SortAndMerge(steps.hosts);
  return absl::OkStatus();
}

// Opens lanes for operands and results of the functions that the program calls.
void StepsMaker::OpenLanes(const program::Program& program, const ProgramEntry::Steps& steps) const {
  std::vector<HostId> hosts;
  for (const Step& step : steps.cut.steps) {
    if (step.part >= 0 || program.nodes[step.node].kind != NodeKind::kHostCall) continue;
    for (const auto& values : {step.inputs, step.outputs}) {
      for (int value : values)
        for (const ProgramEntry::Place& place : *steps.places[value]) hosts.push_back(place.host);
    }
  }
  SortAndMerge(hosts);
  lanes_->OpenForCalls(hosts);
}

absl::Status StepsMaker::CheckWaiting(const Node& node, const ProgramEntry::Steps& steps) const {
  for (size_t i = 0; node.kind == NodeKind::kHostCall && i < node.inputs.size(); ++i) {
    const int shards = steps.cut.specs[node.inputs[i]]->sharding.num_shards();
    if (shards != 1)
      return absl::InvalidArgumentError(absl::StrCat("operand ", i, " of a Python function must have one shard, not ", shards));
  }
  for (size_t i = 0; IsCommand(node) && i < node.inputs.size(); ++i) {
    const std::string of = node.kind == NodeKind::kRoute ? "a route" : absl::StrCat("the Python function ", node.function);
    PW_RETURN_IF_ERROR(
        CheckSame(*fabric_, *steps.cut.specs[node.inputs[i]], *node.takes[i], absl::StrCat("input ", i, " of ", of)));
  }
  if (node.kind == NodeKind::kWhile) return CheckLoop(node, *steps.branches[node.branches[0]], steps);
  if (node.kind != NodeKind::kSelect) return absl::OkStatus();
  const buffers::ArraySpec& index = *steps.cut.specs[node.inputs[0]];
  if (index.dtype != buffers::DType::kS32 || !index.dims.empty() || index.sharding.num_shards() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("the index of a choice must be one s32 on one device, not ", buffers::ToString(index)));
  for (int b : node.branches) PW_RETURN_IF_ERROR(CheckBranch(node, *steps.branches[b], steps));
  return absl::OkStatus();
}

absl::Status StepsMaker::CheckLoop(const Node& node, const ProgramEntry& turn, const ProgramEntry::Steps& steps) const {
  if (fabric_->sequential_dispatch())
    return absl::UnimplementedError(
        "a controller with --dispatch=sequential runs no loops in programs, because hosts begin their turns: start it without "
        "this flag");
  const std::string& name = turn.program().name;
  const auto constants = static_cast<size_t>(node.constants());
  if (turn.leases == nullptr || turn.arguments.size() + 1 != node.inputs.size() ||
      turn.typed->result_specs->size() != node.outputs.size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat("branch ", name, " is no turn of a loop with ", node.inputs.size() - 1,
                                                   " inputs that carries ", node.outputs.size(), " arrays"));
  }
  for (size_t i = 0; i < turn.arguments.size(); ++i) {
    if (turn.arguments[i].donated != (i >= constants))
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " of turn ", name, " must be donated exactly if it is carried"));
    PW_RETURN_IF_ERROR(CheckSame(*fabric_, *steps.cut.specs[node.inputs[i + 1]], *turn.arguments[i].spec,
                                 absl::StrCat("input ", i, " of turn ", name)));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const buffers::ArraySpec& carried = *turn.arguments[constants + i].spec;
    PW_RETURN_IF_ERROR(
        CheckSame(*fabric_, (*turn.typed->result_specs)[i], carried, absl::StrCat("result ", i, " of turn ", name)));
    PW_RETURN_IF_ERROR(CheckSame(*fabric_, *node.outputs[i], carried, absl::StrCat("output ", i, " of loop ", name)));
  }
  const buffers::ArraySpec& predicate = *steps.cut.specs[node.inputs[0]];
  if (predicate.dtype != buffers::DType::kPred || !predicate.dims.empty() || predicate.sharding.num_shards() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("the predicate of a loop must be one pred on one device, not ", buffers::ToString(predicate)));
  return CheckSame(*fabric_, turn.typed->result_specs->back(), predicate, absl::StrCat("the predicate of turn ", name));
}

absl::Status StepsMaker::CheckBranch(const Node& node, const ProgramEntry& branch, const ProgramEntry::Steps& steps) const {
  const std::string& name = branch.program().name;
  if (branch.leases != nullptr) return absl::InvalidArgumentError(absl::StrCat("branch ", name, " is a turn of a loop"));
  if (branch.arguments.size() + 1 != node.inputs.size() || branch.typed->result_specs->size() != node.outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("branch ", name, " takes ", branch.arguments.size(), " arrays and returns ",
                                                   branch.typed->result_specs->size(), ", not ", node.inputs.size() - 1, " and ",
                                                   node.outputs.size()));
  }
  for (size_t i = 0; i < branch.arguments.size(); ++i) {
    PW_RETURN_IF_ERROR(CheckSame(*fabric_, *steps.cut.specs[node.inputs[i + 1]], *branch.arguments[i].spec,
                                 absl::StrCat("input ", i, " of branch ", name)));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    PW_RETURN_IF_ERROR(
        CheckSame(*fabric_, (*branch.typed->result_specs)[i], *node.outputs[i], absl::StrCat("result ", i, " of branch ", name)));
  }
  return absl::OkStatus();
}

}  // namespace pw::controller
