#include "pathways/dispatch/lower_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/dispatch/plan_move.h"
#include "pathways/program/command_template.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using program::Node;
using program::NodeKind;
using program::Slot;
using program::SlotKind;

constexpr SessionId kNoSession{};

// Arguments and results are numbered for the whole program first; each host's own numbers are given at the end.
class Lowering {
 public:
  Lowering(const program::TypedProgram& typed, const resource::Topology& topology)
      : typed_(typed), program_(typed.program), topology_(topology) {
    for (HostId host : topology.hosts()) outbox_.AddHost(host);
  }

  absl::StatusOr<LoweredProgram> Run() {
    FindRoots();
    FindLastUses();
    NameResults();
    int result = 0;
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n) {
      node_ = n;
      const Node& node = program_.nodes[n];
      absl::Status status;
      if (node.kind == NodeKind::kArg) LowerArg(node);
      if (node.kind == NodeKind::kCompute) LowerCompute(node);
      if (node.kind == NodeKind::kTransfer) status = LowerTransfer(node);
      if (node.kind == NodeKind::kResult) LowerResult(node, result++);
      if (!status.ok()) return program_.At(n, status);
      ReleaseDead(n);
    }
    return Finish();
  }

 private:
  struct Value {
    int root = 0;           // the value whose shards these are: itself, or the source of a transfer that moves nothing
    uint64_t name = 0;      // slot
    int last_use = 0;       // node; of roots
    bool owned = true;      // released after the last use
    bool given = false;     // taken over by the Compute of its last use
    int result = -1;        // the first result that it is
    std::vector<HostId> hosts;  // once they have been asked for
  };

  Value& Root(int value) { return values_[values_[value].root]; }
  const buffers::ArraySpec& Spec(int value) const { return *typed_.specs[value]; }
  uint64_t NewName() { return Slot(SlotKind::kName, names_++); }

  static bool SamePlace(const buffers::ArraySpec& a, const buffers::ArraySpec& b) {
    return a.sharding.devices() == b.sharding.devices() && a.sharding.tiles() == b.sharding.tiles() &&
           a.sharding.memory_kind() == b.sharding.memory_kind();
  }

  void FindRoots() {
    values_.resize(program_.producer_of.size());
    for (int v = 0; v < static_cast<int>(values_.size()); ++v) {
      const Node& node = program_.nodes[program_.producer_of[v]];
      const bool idle = node.kind == NodeKind::kTransfer && SamePlace(Spec(v), Spec(node.inputs[0]));
      values_[v].root = idle ? values_[node.inputs[0]].root : v;
      values_[v].last_use = program_.producer_of[v];
    }
  }

  void FindLastUses() {
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n) {
      for (int input : program_.nodes[n].inputs) Root(input).last_use = n;
    }
  }

  // A computed value that is a result bears its name.
  void NameResults() {
    for (size_t r = 0; r < program_.results.size(); ++r) {
      Value& root = Root(program_.nodes[program_.results[r]].inputs[0]);
      if (root.result < 0) root.result = static_cast<int>(r);
    }
  }

  // The name of a value that a node makes.
  uint64_t NameOutput(int value) {
    Value& root = values_[value];
    root.owned = root.result < 0;
    root.name = root.result >= 0 ? Slot(SlotKind::kResult, root.result) : NewName();
    return root.name;
  }

  void LowerArg(const Node& node) {
    Value& value = values_[node.first_output];
    const buffers::ArraySpec& spec = *node.spec;
    const uint32_t first_array = arrays_;
    const uint64_t first = Slot(SlotKind::kArgument, first_array);
    const int shards = spec.sharding.num_shards();
    arrays_ += node.apart ? shards : 1;
    for (int s = 0; s < shards; ++s) needs_[HostOf(spec, s)].args.insert(first_array + (node.apart ? s : 0));
    value.owned = node.donated;
    value.name = first;
    if (!node.apart) return;
    value.name = NewName();
    value.owned = true;
    AliasShards(spec, value.name, [&](int shard) { return std::pair<uint64_t, int>(first + shard, 0); });
    if (!node.donated) return;
    for (int s = 0; s < shards; ++s) Release(HostOf(spec, s), first + s);
  }

  void LowerCompute(const Node& node) {
    const program::Executable& executable = *typed_.executables[node.executable];
    std::vector<ArrayId> args, results;
    for (int input : node.inputs) args.push_back(ArrayId(Root(input).name));
    for (int k = 0; k < node.num_outputs; ++k) results.push_back(ArrayId(NameOutput(node.first_output + k)));
    std::vector<int32_t> kept;
    for (int32_t k : executable.donated_inputs) {
      if (MayDonate(node, k)) {
        Root(node.inputs[k]).given = true;
      } else {
        kept.push_back(k);
      }
    }
    ExecuteCall call{kNoSession, &executable, args, results, 0, kept, false};
    if (executable.hosts.size() > 1) call.launch = NewName();
    PlanExecute(call, [](HostId) { return OpId(); }, outbox_);
    Collect();
  }

  bool MayDonate(const Node& node, int k) {
    const Value& root = Root(node.inputs[k]);
    if (!root.owned || root.last_use != node_ || root.result >= 0) return false;
    return std::count_if(node.inputs.begin(), node.inputs.end(),
                         [&](int input) { return values_[input].root == values_[node.inputs[k]].root; }) == 1;
  }

  absl::Status LowerTransfer(const Node& node) {
    const int value = node.first_output;
    if (values_[value].root != value) return absl::OkStatus();
    const buffers::ArraySpec& source = Spec(node.inputs[0]);
    const buffers::ArraySpec& target = Spec(value);
    PW_ASSIGN_OR_RETURN(const buffers::ReshardPlan plan,
                        buffers::PlanReshard(target.dims, source.sharding, target.sharding,
                                             [&](DeviceId device) { return topology_.FindDevice(device)->host; }));
    const MoveCall call{kNoSession, ArrayId(Root(node.inputs[0]).name), &source, ArrayId(NameOutput(value)), &target};
    PlanMove(topology_, call, plan, [&] { return NewName(); }, [](HostId) { return OpId(); }, outbox_);
    Collect();
    return absl::OkStatus();
  }

  // Ascending. What a Compute makes is where that runs: the shards are not looked at.
  const std::vector<HostId>& HostsOf(int value) {
    std::vector<HostId>& hosts = values_[value].hosts;
    if (!hosts.empty()) return hosts;
    const Node& maker = program_.nodes[program_.producer_of[value]];
    if (maker.kind == NodeKind::kCompute) {
      hosts = typed_.executables[maker.executable]->hosts;
    } else {
      const buffers::ArraySpec& spec = Spec(value);
      for (int s = 0; s < spec.sharding.num_shards(); ++s) {
        const HostId host = HostOf(spec, s);
        if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
      }
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return hosts;
  }

  void LowerResult(const Node& node, int result) {
    const buffers::ArraySpec& spec = Spec(node.inputs[0]);
    const uint64_t slot = Slot(SlotKind::kResult, result);
    const std::vector<HostId>& hosts = HostsOf(node.inputs[0]);
    for (HostId host : hosts) needs_[host].results.insert(result);
    result_hosts_.push_back(hosts);
    result_makers_.push_back(program_.producer_of[values_[node.inputs[0]].root]);
    const Value& root = Root(node.inputs[0]);
    if (root.name == slot) return;
    AliasShards(spec, slot, [&](int shard) { return std::pair<uint64_t, int>(root.name, shard); });
  }

  // Values whose last use was this node.
  void ReleaseDead(int n) {
    const Node& node = program_.nodes[n];
    std::vector<int> roots;
    for (int input : node.inputs) roots.push_back(values_[input].root);
    for (int k = 0; k < node.num_outputs; ++k) roots.push_back(values_[node.first_output + k].root);
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    for (int v : roots) {
      const Value& root = values_[v];
      if (root.last_use != n || !root.owned || root.given) continue;
      for (HostId host : HostsOf(v)) Release(host, root.name);
    }
  }

  HostId HostOf(const buffers::ArraySpec& spec, int shard) const {
    return topology_.FindDevice(spec.sharding.devices()[shard])->host;
  }

  template <class Source>
  void AliasShards(const buffers::ArraySpec& spec, uint64_t name, Source source) {
    std::map<HostId, Command> commands;
    for (int s = 0; s < spec.sharding.num_shards(); ++s) {
      auto* item = commands[HostOf(spec, s)].mutable_alias()->add_items();
      const auto [array, shard] = source(s);
      item->set_array(name);
      item->set_shard(s);
      item->set_source_array(array);
      item->set_source_shard(shard);
    }
    for (auto& [host, command] : commands) Add(host, std::move(command));
  }

  void Release(HostId host, uint64_t name) {
    LoweredHost& part = Part(host);
    if (part.commands.empty() || part.node_of.back() != node_ || !part.commands.back().has_release()) Add(host, Command());
    part.commands.back().mutable_release()->add_arrays(name);
  }

  LoweredHost& Part(HostId host) {
    LoweredHost& part = parts_[host];
    part.host = host;
    return part;
  }

  void Add(HostId host, Command command) {
    const std::string location = program_.Describe(node_);
    if (command.has_execute()) command.mutable_execute()->set_location(location);
    if (command.has_move()) command.mutable_move()->set_location(location);
    LoweredHost& part = Part(host);
    part.commands.push_back(std::move(command));
    part.node_of.push_back(node_);
  }

  // The planners speak to an outbox; what they put there is taken out again.
  void Collect() {
    outbox_.Flush([&](HostId host, std::string header, std::vector<Bytes>) {
      ::pathways::v1::ToWorker batch;
      batch.ParseFromString(header);
      for (Command& command : *batch.mutable_commands()) Add(host, std::move(command));
    });
  }

  LoweredProgram Finish() {
    LoweredProgram lowered;
    for (const auto& [host, needs] : needs_) Part(host);
    for (auto& [host, part] : parts_) {
      const Needs& needs = needs_[host];
      part.args.assign(needs.args.begin(), needs.args.end());
      part.results.assign(needs.results.begin(), needs.results.end());
      absl::flat_hash_map<uint64_t, uint64_t> renamed;
      for (size_t k = 0; k < part.args.size(); ++k)
        renamed[Slot(SlotKind::kArgument, part.args[k])] = Slot(SlotKind::kArgument, k);
      for (size_t k = 0; k < part.results.size(); ++k)
        renamed[Slot(SlotKind::kResult, part.results[k])] = Slot(SlotKind::kResult, k);
      for (Command& command : part.commands) program::RenameSlots(renamed, &command);
      lowered.hosts.push_back(std::move(part));
    }
    lowered.names = names_;
    lowered.arrays = arrays_;
    lowered.result_hosts = std::move(result_hosts_);
    lowered.result_makers = std::move(result_makers_);
    return lowered;
  }

  struct Needs {
    std::set<uint32_t> args;
    std::set<uint32_t> results;
  };

  const program::TypedProgram& typed_;
  const program::Program& program_;
  const resource::Topology& topology_;
  int node_ = 0;
  uint64_t names_ = 0;
  uint32_t arrays_ = 0;
  Outbox outbox_;
  std::vector<Value> values_;
  std::map<HostId, LoweredHost> parts_;
  std::map<HostId, Needs> needs_;
  std::vector<std::vector<HostId>> result_hosts_;
  std::vector<int> result_makers_;
};

}  // namespace

absl::StatusOr<LoweredProgram> LowerProgram(const program::TypedProgram& program, const resource::Topology& topology) {
  return Lowering(program, topology).Run();
}

}  // namespace pw::dispatch
