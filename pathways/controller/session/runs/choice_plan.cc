#include "pathways/controller/session/runs/choice_plan.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pw::controller {
namespace {

using ::pathways::v1::BeginChoice;
using ::pathways::v1::Script;
using program::Node;
using program::NodeKind;
using program::Step;
using Slots = std::vector<uint32_t>;

// Limits of a script. Branches may use the same branches, so without a limit a small program could have an endless script.
constexpr int kMostSteps = 1024;
constexpr int kMostDepth = 8;
constexpr uint64_t kMostSlots = 1u << 24;  // worker/execute/choices.h

HostId LeaderOf(const ProgramEntry::Steps& steps, const Step& choice) { return steps.places[choice.inputs[0]]->front().host; }

bool IsOn(const ProgramEntry::Steps& steps, int value, HostId host) {
  const std::vector<ProgramEntry::Place>& places = *steps.places[value];
  return std::any_of(places.begin(), places.end(), [&](const auto& place) { return place.host == host; });
}

// Finds the hosts and devices of a choice, and whether hosts can choose.
class Survey {
 public:
  bool AddChoice(const ProgramEntry::Steps& steps, const program::Program& program, const Step& choice) {
    if (++steps_ > kMostSteps || depth_ == kMostDepth) return false;
    hosts.insert(LeaderOf(steps, choice));
    for (int value : choice.outputs) {
      for (const ProgramEntry::Place& place : *steps.places[value]) hosts.insert(place.host);
    }
    ++depth_;
    const std::vector<int>& branches = program.nodes[choice.node].branches;
    const bool fits = std::all_of(branches.begin(), branches.end(), [&](int b) { return AddBranch(*steps.branches[b]); });
    --depth_;
    return fits;
  }

  std::set<HostId> hosts;
  std::set<DeviceId> devices;
  bool spans = false;
  int computes = 0;

 private:
  bool AddBranch(const ProgramEntry& branch) {
    const program::Program& program = branch.program();
    for (const Step& step : branch.steps->cut.steps) {
      if (step.part >= 0) {
        if (++steps_ > kMostSteps) return false;
        AddPart(*branch.steps->parts[step.part]);
      } else if (program.nodes[step.node].kind != NodeKind::kSelect || !AddChoice(*branch.steps, program, step)) {
        return false;
      }
    }
    return true;
  }
  void AddPart(const ProgramEntry& part) {
    for (const dispatch::LoweredHost& host : part.lowered.hosts) {
      if (!host.commands.empty()) hosts.insert(host.host);
    }
    for (const Node& node : part.program().nodes) {
      if (node.kind != NodeKind::kCompute) continue;
      const std::vector<DeviceId>& used = part.typed->executables[static_cast<size_t>(node.executable)]->physical;
      devices.insert(used.begin(), used.end());
      ++computes;
    }
    spans = spans || part.lowered.spans;
  }

  int steps_ = 0;
  int depth_ = 0;
};

// Writes the script of one host.
class Writer {
 public:
  // `slots`: those of the node's inputs and outputs.
  Writer(HostId host, uint64_t slots) : next_(slots), host_(host) {}

  void AddChoice(const ProgramEntry::Steps& steps, const program::Program& program, const Step& step, const Slots& inputs,
                 const Slots& outputs, Script* script) {
    Script::Choose& choose = *script->add_steps()->mutable_choose();
    choose.set_number(numbers_++);
    choose.set_index(inputs[0]);
    choose.set_leader(LeaderOf(steps, step).v);
    choose.set_location(program.Describe(step.node));
    if (LeaderOf(steps, step) == host_) taken_.insert(inputs[0]);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (IsOn(steps, step.outputs[i], host_)) choose.add_outputs(outputs[i]);
    }
    const Slots args(inputs.begin() + 1, inputs.end());
    for (int b : program.nodes[step.node].branches) AddBranch(*steps.branches[b], args, outputs, choose.add_branches());
  }

  uint64_t slots() const { return next_; }
  // The slots that the script reads.
  const std::set<uint32_t>& taken() const { return taken_; }

 private:
  Slots Take(size_t count) {
    Slots slots;
    for (size_t i = 0; i < count; ++i) slots.push_back(static_cast<uint32_t>(next_++));
    return slots;
  }

  void AddBranch(const ProgramEntry& branch, const Slots& args, const Slots& results, Script* script) {
    const program::Program& program = branch.program();
    const program::Cut& cut = branch.steps->cut;
    Slots slot_of(cut.specs.size());
    for (size_t k = 0; k < args.size(); ++k) slot_of[program.nodes[program.args[k]].first_output] = args[k];
    for (const Step& step : cut.steps) {
      Slots inputs, outputs = Take(step.outputs.size());
      for (int value : step.inputs) inputs.push_back(slot_of[value]);
      for (size_t i = 0; i < outputs.size(); ++i) slot_of[step.outputs[i]] = outputs[i];
      if (step.part < 0) {
        AddChoice(*branch.steps, program, step, inputs, outputs, script);
        continue;
      }
      for (int result : step.results) outputs.push_back(results[result]);
      AddPart(*branch.steps->parts[step.part], inputs, outputs, script);
    }
  }

  void AddPart(const ProgramEntry& part, const Slots& inputs, const Slots& outputs, Script* script) {
    const uint64_t names = next_;
    next_ += part.lowered.names;
    for (const dispatch::LoweredHost& host : part.lowered.hosts) {
      if (host.host != host_ || host.commands.empty()) continue;
      Script::Part& to = *script->add_steps()->mutable_part();
      to.set_graph(part.graph->sequence);
      to.set_names(static_cast<uint32_t>(names));
      for (uint32_t k : host.args) {
        to.add_args(inputs[k]);
        taken_.insert(inputs[k]);
      }
      for (uint32_t r : host.results) to.add_results(outputs[r]);
    }
  }

  uint64_t next_;
  uint32_t numbers_ = 0;
  std::set<uint32_t> taken_;
  const HostId host_;
};

Slots Numbers(size_t first, size_t count) {
  Slots slots;
  for (size_t i = 0; i < count; ++i) slots.push_back(static_cast<uint32_t>(first + i));
  return slots;
}

}  // namespace

std::shared_ptr<HostChoice> PlanChoice(const ProgramEntry::Steps& steps, const program::Program& program, const Step& step,
                                       const resource::Topology& topology) {
  Survey survey;
  if (!survey.AddChoice(steps, program, step) || survey.computes == 0) return nullptr;
  auto choice = std::make_shared<HostChoice>();
  choice->spans = survey.spans;
  choice->computes = survey.computes;
  choice->devices.assign(survey.devices.begin(), survey.devices.end());
  const size_t inputs = step.inputs.size(), outputs = step.outputs.size();
  for (HostId host : survey.hosts) {
    Writer writer(host, inputs + outputs);
    BeginChoice& command = choice->commands[host];
    writer.AddChoice(steps, program, step, Numbers(0, inputs), Numbers(inputs, outputs), command.mutable_script());
    if (writer.slots() > kMostSlots) return nullptr;
    choice->slots = static_cast<uint32_t>(writer.slots());
    command.set_slots(choice->slots);
    for (HostId other : survey.hosts) command.add_hosts(other.v);
    for (uint32_t slot : writer.taken()) {
      if (slot >= inputs) break;
      BeginChoice::Array& input = *command.add_inputs();
      input.set_slot(slot);
      input.set_array(slot);
    }
    for (size_t i = 0; i < outputs; ++i) {
      if (!IsOn(steps, step.outputs[i], host)) continue;
      BeginChoice::Array& output = *command.add_outputs();
      output.set_slot(static_cast<uint32_t>(inputs + i));
      output.set_array(i);
    }
  }
  for (DeviceId id : choice->devices) {
    const resource::Device* const device = topology.FindDevice(id);
    if (device != nullptr) choice->commands[device->host].add_devices(device->local_ordinal);
  }
  for (const auto& [host, command] : choice->commands) {
    if (command.devices_size() > 0) choice->executing.push_back(host);
  }
  return choice;
}

}  // namespace pw::controller
