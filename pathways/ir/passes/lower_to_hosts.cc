#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/ir/passes.h"
#include "pathways/ir/places.h"
#include "pathways/program/command_template.h"

namespace pw::ir {

#define GEN_PASS_DEF_LOWERTOHOSTS
#include "pathways/ir/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;
using program::SlotKind;

int64_t SlotOf(SlotKind kind, uint64_t index) { return static_cast<int64_t>(program::Slot(kind, index)); }

// A step of a set of hosts. Hosts are grouped by their steps later.
struct Step {
  int hosts = 0;  // the set's number in HostSets
  mlir::Location location;
  std::function<void(mlir::OpBuilder&, mlir::Location)> make;  // null: a release of `released`
  int64_t released = 0;
};

class HostSets {
 public:
  int Number(Places::Hosts hosts) {
    auto [it, is_new] = numbers_.try_emplace(std::move(hosts), static_cast<int>(sets_.size()));
    if (is_new) sets_.push_back(it->first);
    return it->second;
  }
  // Groups the hosts that are in the same sets. Returns each group with its sets, ordered by the smallest host.
  std::vector<std::pair<Places::Hosts, std::vector<bool>>> Groups() const {
    std::map<int32_t, std::vector<bool>> sets_of;
    for (size_t s = 0; s < sets_.size(); ++s) {
      for (int32_t host : sets_[s]) {
        auto [it, is_new] = sets_of.try_emplace(host);
        it->second.resize(sets_.size());
        it->second[s] = true;
      }
    }
    std::map<std::vector<bool>, Places::Hosts> hosts_of;
    for (const auto& [host, sets] : sets_of) hosts_of[sets].push_back(host);
    std::vector<std::pair<Places::Hosts, std::vector<bool>>> groups;
    for (const auto& [sets, hosts] : hosts_of) groups.emplace_back(hosts, sets);
    std::sort(groups.begin(), groups.end());
    return groups;
  }

 private:
  std::map<Places::Hosts, int> numbers_;
  std::vector<Places::Hosts> sets_;
};

// Lowers one program. An executable may take over an argument that it donates if this is the value's last use. The value must be
// computed by the program, or be an argument that the caller donated. A computed value that is a result has the result's slot
// from the start.
class Lowering {
 public:
  Lowering(mlir::ModuleOp module, ProgramOp program) : module_(module), program_(program), symbols_(module), places_(module) {}

  mlir::LogicalResult Run() {
    FindUses();
    for (Operation& op : program_.getBody().front()) {
      op_ = &op;
      const bool known = llvm::TypeSwitch<Operation*, bool>(&op)
                             .Case<ArgOp, ComputeOp, TransferOp, ResultOp>([&](auto it) { return Lower(it), true; })
                             .Default([](Operation*) { return false; });
      if (!known) {
        return op.emitError() << op.getName()
                              << " waits for a value: the controller cuts a program there into parts, which can be lowered";
      }
      ReleaseDead();
      ++position_;
    }
    if (failed(CheckOperands())) return mlir::failure();
    Emit();
    return mlir::success();
  }

 private:
  struct State {
    int64_t slot = 0;
    int last_use = 0;    // position of the operation
    bool owned = true;   // the program releases it after the last use
    bool given = false;  // an executable takes it over at the last use
    int result = -1;     // the first of the program's results that it is; -1: none
  };

  void FindUses() {
    int position = 0, result = 0;
    for (Operation& op : program_.getBody().front()) {
      for (Value value : op.getOperands()) states_[value].last_use = position;
      for (Value value : op.getResults()) states_[value].last_use = position;
      if (auto is_result = mlir::dyn_cast<ResultOp>(op)) {
        State& state = states_[is_result.getValue()];
        if (state.result < 0) state.result = result;
        ++result;
      }
      ++position;
    }
  }

  // Checks that all inputs are on the executable's mesh, as pw-insert-transfers makes them.
  mlir::LogicalResult CheckOperands() {
    for (ComputeOp compute : program_.getOps<ComputeOp>()) {
      const llvm::StringRef mesh = symbols_.lookup<ExecutableOp>(compute.getExecutable()).getMesh();
      for (Value input : compute.getInputs()) {
        if (mlir::cast<ArrayType>(input.getType()).getMesh().getValue() != mesh)
          return compute.emitError() << "an input is not where the executable runs: run pw-insert-transfers first";
      }
    }
    return mlir::success();
  }

  const Places::Hosts& HostsOf(Value value) { return places_.HostsOf(mlir::cast<ArrayType>(value.getType()).getMesh()); }
  int64_t NewName() { return SlotOf(SlotKind::kName, names_++); }
  void Add(const Places::Hosts& hosts, std::function<void(mlir::OpBuilder&, mlir::Location)> make, int64_t released = 0) {
    steps_.push_back({host_sets_.Number(hosts), op_->getLoc(), std::move(make), released});
  }

  int64_t NameOutput(Value value) {
    State& state = states_[value];
    state.owned = state.result < 0;
    return state.slot = state.result >= 0 ? SlotOf(SlotKind::kResult, state.result) : NewName();
  }

  void Lower(ArgOp arg) {
    State& state = states_[arg.getValue()];
    const ArrayType type = arg.getValue().getType();
    const Places::Hosts& hosts = HostsOf(arg.getValue());
    const int64_t first = SlotOf(SlotKind::kArgument, arrays_);
    host_sets_.Number(hosts);  // hosts of an argument take part in the program even if they do not use it
    arrays_ += arg.getApart() ? places_.NumDevices(type.getMesh()) : 1;
    state.owned = arg.getDonated();
    state.slot = first;
    if (!arg.getApart()) return;
    state.owned = true;
    Alias(hosts, state.slot = NewName(), first, true, type);
    if (!arg.getDonated()) return;
    Add(hosts, [=](mlir::OpBuilder& b, mlir::Location loc) {
      b.create<ReleaseOp>(loc, b.getDenseI64ArrayAttr(first), mlir::TypeAttr::get(type));
    });
  }

  void Lower(ComputeOp compute) {
    auto executable = symbols_.lookup<ExecutableOp>(compute.getExecutable());
    const Places::Hosts& hosts = places_.HostsOf(executable.getMeshAttr());
    std::vector<int64_t> takes, makes;
    for (Value input : compute.getInputs()) takes.push_back(states_[input].slot);
    for (Value output : compute.getOutputs()) makes.push_back(NameOutput(output));
    std::vector<int32_t> kept;
    for (int32_t k : Ints(executable.getDonatesAttr())) {
      if (MayTake(compute, compute.getInputs()[k])) {
        states_[compute.getInputs()[k]].given = true;
      } else {
        kept.push_back(k);
      }
    }
    const int64_t launch = hosts.size() > 1 ? NewName() : 0;
    Add(hosts, [=](mlir::OpBuilder& b, mlir::Location loc) mutable {
      b.create<ExecuteOp>(loc, compute.getExecutableAttr(), b.getDenseI64ArrayAttr(takes), b.getDenseI64ArrayAttr(makes),
                          kept.empty() ? nullptr : b.getDenseI32ArrayAttr(kept),
                          launch == 0 ? nullptr : b.getI64IntegerAttr(launch));
    });
  }

  bool MayTake(ComputeOp compute, Value input) {
    const State& state = states_[input];
    return state.owned && state.last_use == position_ && state.result < 0 && llvm::count(compute.getInputs(), input) == 1;
  }

  void Lower(TransferOp transfer) {
    Places::Hosts hosts = HostsOf(transfer.getInput());
    const Places::Hosts& to = HostsOf(transfer.getOutput());
    hosts.insert(hosts.end(), to.begin(), to.end());
    SortAndMerge(hosts);
    const int64_t source = states_[transfer.getInput()].slot, target = NameOutput(transfer.getOutput());
    const ArrayType from = transfer.getInput().getType(), type = transfer.getOutput().getType();
    Add(hosts, [=, number = moves_++](mlir::OpBuilder& b, mlir::Location loc) {
      b.create<MoveOp>(loc, number, source, target, from, type);
    });
  }

  void Lower(ResultOp result) {
    const int64_t slot = SlotOf(SlotKind::kResult, results_++);
    const State& state = states_[result.getValue()];
    host_sets_.Number(HostsOf(result.getValue()));
    if (state.slot != slot) Alias(HostsOf(result.getValue()), slot, state.slot, false, result.getValue().getType());
  }

  void Alias(const Places::Hosts& hosts, int64_t target, int64_t source, bool apart, ArrayType type) {
    Add(hosts, [=](mlir::OpBuilder& b, mlir::Location loc) { b.create<AliasOp>(loc, target, source, apart, type); });
  }

  // Releases the values whose last use is this operation.
  void ReleaseDead() {
    llvm::SmallVector<Value> seen;
    auto release = [&](Value value) {
      const State& state = states_[value];
      if (state.last_use != position_ || !state.owned || state.given || llvm::is_contained(seen, value)) return;
      seen.push_back(value);
      Add(HostsOf(value), nullptr, state.slot);
    };
    for (Value value : op_->getOperands()) release(value);
    for (Value value : op_->getResults()) release(value);
  }

  void Emit() {
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module_.getBody());
    for (const auto& [hosts, sets] : host_sets_.Groups()) {
      auto host_program = builder.create<HostProgramOp>(program_.getLoc(), builder.getDenseI32ArrayAttr(hosts));
      mlir::OpBuilder body = mlir::OpBuilder::atBlockBegin(&host_program.getBody().emplaceBlock());
      ReleaseOp last;  // the release at the end of the list so far, to which later ones of its node are added
      for (const Step& step : steps_) {
        if (!sets[step.hosts]) continue;
        if (step.make) {
          step.make(body, step.location);
          last = nullptr;
        } else if (last && last.getLoc() == step.location) {
          llvm::SmallVector<int64_t> arrays(last.getArrays());
          arrays.push_back(step.released);
          last.setArrays(arrays);
        } else {
          last = body.create<ReleaseOp>(step.location, body.getDenseI64ArrayAttr(step.released), nullptr);
        }
      }
    }
  }

  mlir::ModuleOp module_;
  ProgramOp program_;
  const mlir::SymbolTable symbols_;
  Places places_;
  HostSets host_sets_;
  llvm::DenseMap<Value, State> states_;
  std::vector<Step> steps_;
  Operation* op_ = nullptr;
  int position_ = 0;
  int moves_ = 0;
  uint64_t names_ = 0, arrays_ = 0, results_ = 0;
};

struct LowerToHosts : impl::LowerToHostsBase<LowerToHosts> {
  void runOnOperation() override {
    auto devices = TheOnly<VirtualDevicesOp>(getOperation());
    auto program = TheOnly<ProgramOp>(getOperation());
    if (!devices || !devices.getHosts() || !program) {
      getOperation().emitError() << "there is no program that has a place: run pw-place first";
      return signalPassFailure();
    }
    if (program->getNextNode() != nullptr && mlir::isa<ProgramOp>(program->getNextNode())) {
      program.emitError() << "a program with branches is cut into parts before it is lowered";
      return signalPassFailure();
    }
    if (failed(Lowering(getOperation(), program).Run())) signalPassFailure();
  }
};

}  // namespace
}  // namespace pw::ir
