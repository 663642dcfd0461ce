#include "pathways/dispatch/lower_program.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/reshard_plan.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/dispatch/plan_move.h"
#include "pathways/program/command_template.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using program::HostStep;
using program::Slot;
using program::SlotKind;

constexpr SessionId kNoSession{};
// Most bytes of one host's commands. They are installed in one frame (net::Limits::max_header_bytes).
constexpr size_t kMostBytes = 8 << 20;
constexpr size_t kNodeBytes = 16;  // of a node beside its name and config, about

// Numbers arguments and results for the whole program first; Finish renumbers them for each host.
class Lowering {
 public:
  Lowering(const program::HostPrograms& steps, const program::Program& program,
           const std::vector<program::ExecutablePtr>& executables, const resource::Topology& topology)
      : steps_(steps), program_(program), executables_(executables), topology_(topology), names_(steps.names) {
    for (HostId host : topology.hosts()) outbox_.AddHost(host);
  }

  absl::StatusOr<LoweredProgram> Run() {
    AddArguments();
    AddResults();
    for (const program::HostProgram& part : steps_.programs) {
      for (const HostStep& step : part.steps) {
        node_ = step.node;
        PW_RETURN_IF_ERROR(program_.At(node_, Lower(part.hosts, step)));
      }
    }
    return Finish();
  }

 private:
  absl::Status Lower(const std::vector<HostId>& hosts, const HostStep& step) {
    if (step.kind == HostStep::Kind::kMove && !moves_.contains(step.move)) PW_RETURN_IF_ERROR(PlanMoveOf(step));
    for (HostId host : hosts) {
      if (step.kind == HostStep::Kind::kExecute) Add(host, Execute(step));
      if (step.kind == HostStep::Kind::kAlias) Alias(host, step);
      if (step.kind == HostStep::Kind::kRelease) Release(host, step);
      if (step.kind != HostStep::Kind::kMove) continue;
      auto& planned = moves_[step.move];
      if (auto commands = planned.find(host); commands != planned.end()) {
        for (Command& command : commands->second) Add(host, std::move(command));
      }
    }
    return absl::OkStatus();
  }

  void AddArguments() {
    for (const auto& arg : steps_.args) {
      const int shards = arg.spec->sharding.num_shards();
      for (int s = 0; s < shards; ++s) needs_[HostOf(*arg.spec, s)].args.insert(arrays_ + (arg.apart ? s : 0));
      arrays_ += arg.apart ? shards : 1;
    }
  }

  void AddResults() {
    for (size_t r = 0; r < steps_.results.size(); ++r) {
      const buffers::ArraySpec& spec = *steps_.results[r].spec;
      std::set<HostId> hosts;
      for (int s = 0; s < spec.sharding.num_shards(); ++s) hosts.insert(HostOf(spec, s));
      for (HostId host : hosts) needs_[host].results.insert(static_cast<uint32_t>(r));
      result_hosts_.emplace_back(hosts.begin(), hosts.end());
    }
  }

  Command Execute(const HostStep& step) {
    spans_ = spans_ || step.launch != 0;
    std::vector<ArrayId> args(step.arrays.begin(), step.arrays.end()), results(step.made.begin(), step.made.end());
    ExecuteCall call{kNoSession, executables_[step.executable].get(), args, results, 0, step.kept, false};
    call.launch = step.launch;
    return MakeExecute(call, OpId());
  }

  // Plans all hosts' parts of a move at once: a sender and its receiver have to agree on the names of transfers.
  absl::Status PlanMoveOf(const HostStep& step) {
    const program::HostMove& move = steps_.moves[step.move];
    PW_ASSIGN_OR_RETURN(const PlannedMove* planned, PlanOf(move));
    auto& of_hosts = moves_[step.move];
    for (const auto& [host, commands] : planned->commands) {
      for (const Command& command : commands) of_hosts[host].push_back(Named(command, move, names_));
    }
    names_ += planned->names;
    return absl::OkStatus();
  }

  // The plan of all moves between the same two placements, whose commands differ only in names. Repeats of its entries grow by the steps of
  // the transfers' names in a run.
  struct PlannedMove {
    std::map<HostId, std::vector<Command>> commands;  // arrays: kSource and kTarget; transfers: the k-th from 1 on is k * kStep
    uint64_t names = 0;
  };
  static constexpr uint64_t kSource = 1, kTarget = 2;

  absl::StatusOr<const PlannedMove*> PlanOf(const program::HostMove& move) {
    const auto key = std::pair(move.source_spec.get(), move.target_spec.get());
    if (auto known = planned_.find(key); known != planned_.end()) return &known->second;
    PW_ASSIGN_OR_RETURN(const buffers::ReshardPlan plan,
                        buffers::PlanReshard(move.target_spec->dims, move.source_spec->sharding, move.target_spec->sharding,
                                             [&](DeviceId device) { return topology_.FindDevice(device)->host; }));
    PlannedMove& planned = planned_[key];
    const MoveCall call{kNoSession, ArrayId(kSource), move.source_spec.get(), ArrayId(kTarget), move.target_spec.get()};
    PlanMove(topology_, call, plan, [&] { return ++planned.names * RequestName::kStep; }, [](HostId) { return OpId(); }, outbox_);
    // The planners write to an outbox; take the commands out again.
    outbox_.Flush([&](HostId host, std::string header, std::vector<Bytes>) {
      ::pathways::v1::ToWorker batch;
      batch.ParseFromString(header);
      for (Command& command : *batch.mutable_commands()) planned.commands[host].push_back(std::move(command));
    });
    return &planned;
  }

  static Command Named(Command command, const program::HostMove& move, uint64_t first_name) {
    auto array = [&](uint64_t name) { return name == kSource ? move.source : name == kTarget ? move.target : name; };
    auto transfer = [&](uint64_t number) {
      return number == 0 ? 0 : Slot(SlotKind::kName, first_name + number / RequestName::kStep - 1);
    };
    for (auto& send : *command.mutable_move()->mutable_sends()) {
      send.set_array(array(send.array()));
      send.set_transfer(transfer(send.transfer()));
    }
    for (auto& receive : *command.mutable_move()->mutable_receives()) {
      receive.set_array(array(receive.array()));
      for (auto& piece : *receive.mutable_pieces()) {
        piece.set_source_array(array(piece.source_array()));
        piece.set_transfer(transfer(piece.transfer()));
      }
    }
    return command;
  }

  HostId HostOf(const buffers::ArraySpec& spec, int shard) const {
    return topology_.FindDevice(spec.sharding.devices()[shard])->host;
  }

  // Returns the array's shards on the host. Computed once per array for all hosts.
  const std::vector<int>& ShardsOn(HostId host, const buffers::ArraySpec& spec) {
    auto [known, is_new] = shards_on_.try_emplace(&spec);
    for (int s = 0; is_new && s < spec.sharding.num_shards(); ++s) known->second[HostOf(spec, s)].push_back(s);
    return known->second[host];
  }

  void Alias(HostId host, const HostStep& step) {
    Command command;
    for (int s : ShardsOn(host, *step.spec)) {
      auto* item = command.mutable_alias()->add_items();
      item->set_array(step.made[0]);
      item->set_shard(s);
      item->set_source_array(program::SlotAfter(step.arrays[0], step.apart ? s : 0));
      item->set_source_shard(step.apart ? 0 : s);
    }
    if (command.has_alias()) Add(host, std::move(command));
  }

  void Release(HostId host, const HostStep& step) {
    Command command;
    if (!step.apart) command.mutable_release()->mutable_arrays()->Add(step.arrays.begin(), step.arrays.end());
    if (step.apart) {
      for (int s : ShardsOn(host, *step.spec)) command.mutable_release()->add_arrays(program::SlotAfter(step.arrays[0], s));
    }
    if (command.has_release()) Add(host, std::move(command));
  }

  void Add(HostId host, Command command) {
    program::SetLocation(program_.Describe(node_), &command);
    LoweredHost& part = parts_[host];
    part.commands.push_back(std::move(command));
    part.node_of.push_back(node_);
  }

  absl::StatusOr<LoweredProgram> Finish() {
    LoweredProgram lowered;
    for (const auto& [host, needs] : needs_) parts_[host];
    for (auto& [host, part] : parts_) {
      const Needs& needs = needs_[host];
      part.host = host;
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
    lowered.spans = spans_;
    lowered.arrays = arrays_;
    lowered.result_hosts = std::move(result_hosts_);
    for (const auto& result : steps_.results) lowered.result_makers.push_back(result.maker);
    PW_ASSIGN_OR_RETURN(lowered.graph, MakeGraph(lowered.hosts));
    return lowered;
  }

  using Configs = std::map<HostId, std::string>;

  absl::StatusOr<std::shared_ptr<const dataflow::Graph>> MakeGraph(const std::vector<LoweredHost>& hosts) const {
    std::map<int, Configs> configs;  // by node
    for (const LoweredHost& part : hosts) PW_RETURN_IF_ERROR(AddConfigs(part, &configs));
    if (configs.empty()) return nullptr;
    std::map<std::vector<HostId>, dataflow::PlacementRef> placements;
    std::vector<dataflow::Node> nodes;
    for (auto& [node, of_hosts] : configs) {
      std::vector<HostId> there;
      for (const auto& [host, config] : of_hosts) there.push_back(host);
      dataflow::PlacementRef& placement = placements[there];
      if (placement == nullptr) placement = OneShardOnEach(there);
      nodes.push_back({program_.Describe(node), program::kNodeOperator, "", placement,
                       [all = std::make_shared<const Configs>(std::move(of_hosts))](HostId host) { return all->at(host); }});
    }
    return dataflow::Graph::Create(std::move(nodes), {}, dataflow::HostLoss::kConcernsNobody);
  }

  absl::Status AddConfigs(const LoweredHost& part, std::map<int, Configs>* configs) const {
    size_t bytes = 0;
    for (size_t i = 0; i < part.commands.size();) {
      ::pathways::v1::NodeCommands commands;
      const int node = part.node_of[i];
      for (; i < part.commands.size() && part.node_of[i] == node; ++i) {
        *commands.add_commands() = part.commands[i];
        program::SetLocation("", commands.mutable_commands(commands.commands_size() - 1));  // it is the name of the graph's node
      }
      const std::string& config = (*configs)[node][part.host] = commands.SerializeAsString();
      bytes += config.size() + program_.Describe(node).size() + kNodeBytes;
    }
    if (bytes <= kMostBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("the commands of program ", program_.name, " for one host take ",
                                                     bytes >> 20, " MB; the limit is ", kMostBytes >> 20,
                                                     ". Divide it into several programs, or spread it over more hosts"));
  }

  static dataflow::PlacementRef OneShardOnEach(const std::vector<HostId>& hosts) {
    std::vector<dataflow::HostSet::Interval> intervals;
    for (HostId host : hosts) intervals.push_back({host, 1});
    return std::make_shared<const dataflow::Placement>(dataflow::Placement::OnePerHost(dataflow::HostSet(std::move(intervals))));
  }

  struct Needs {
    std::set<uint32_t> args;
    std::set<uint32_t> results;
  };

  const program::HostPrograms& steps_;
  const program::Program& program_;
  const std::vector<program::ExecutablePtr>& executables_;
  const resource::Topology& topology_;
  int node_ = 0;
  uint64_t names_;
  bool spans_ = false;
  uint32_t arrays_ = 0;
  Outbox outbox_;
  std::map<HostId, LoweredHost> parts_;
  std::map<HostId, Needs> needs_;
  std::map<int, std::map<HostId, std::vector<Command>>> moves_;  // planned, by number
  std::map<std::pair<const buffers::ArraySpec*, const buffers::ArraySpec*>, PlannedMove> planned_;
  std::map<const buffers::ArraySpec*, std::map<HostId, std::vector<int>>> shards_on_;
  std::vector<std::vector<HostId>> result_hosts_;
};

}  // namespace

absl::StatusOr<LoweredProgram> LowerProgram(const program::HostPrograms& steps, const program::Program& program,
                                            const std::vector<program::ExecutablePtr>& executables,
                                            const resource::Topology& topology) {
  return Lowering(steps, program, executables, topology).Run();
}

}  // namespace pw::dispatch
