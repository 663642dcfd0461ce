#include "pathways/ir/export.h"

#include <algorithm>
#include <utility>

#include "llvm/ADT/TypeSwitch.h"
#include "pathways/ir/places.h"
#include "pathways/program/command_template.h"

namespace pw::ir {
namespace {

using program::HostPrograms;
using program::HostStep;

std::vector<uint64_t> Slots(llvm::ArrayRef<int64_t> slots) { return std::vector<uint64_t>(slots.begin(), slots.end()); }

class Exporter {
 public:
  Exporter(mlir::ModuleOp module, const program::Program& program, absl::Span<const program::ExecutablePtr> executables)
      : module_(module), program_(program), executables_(executables), symbols_(module), places_(module) {}

  std::optional<HostPrograms> Run() {
    for (HostProgramOp host_program : module_.getOps<HostProgramOp>()) {
      program::HostProgram& part = out_.programs.emplace_back();
      for (int32_t host : host_program.getHosts()) part.hosts.push_back(HostId(static_cast<uint32_t>(host)));
      for (mlir::Operation& op : host_program.getBody().front()) {
        HostStep& step = part.steps.emplace_back();
        step.node = NodeOf(op.getLoc()).value_or(0);
        llvm::TypeSwitch<mlir::Operation*>(&op).Case<ExecuteOp, MoveOp, AliasOp, ReleaseOp>([&](auto it) { Read(it, step); });
      }
    }
    ProgramOp program = TheOnly<ProgramOp>(module_);
    for (ArgOp arg : program.getOps<ArgOp>()) out_.args.push_back({SpecOf(arg.getValue()), arg.getApart()});
    for (ResultOp result : program.getOps<ResultOp>()) {
      out_.results.push_back({SpecOf(result.getValue()), NodeOf(result.getValue().getDefiningOp()->getLoc()).value_or(0)});
    }
    if (failed_) return std::nullopt;
    return std::move(out_);
  }

 private:
  void Read(ExecuteOp op, HostStep& step) {
    step.kind = HostStep::Kind::kExecute;
    step.executable = static_cast<int>(symbols_.lookup<ExecutableOp>(op.getExecutable()).getNumber());
    step.arrays = Take(op.getTakes());
    step.made = Take(op.getMakes());
    if (op.getKeeping()) step.kept.assign(op.getKeeping()->begin(), op.getKeeping()->end());
    if (op.getLaunch()) step.launch = Take({static_cast<int64_t>(*op.getLaunch())})[0];
  }
  void Read(MoveOp op, HostStep& step) {
    step.kind = HostStep::Kind::kMove;
    step.move = static_cast<int>(op.getNumber());
    if (out_.moves.size() <= op.getNumber()) out_.moves.resize(op.getNumber() + 1);
    program::HostMove& move = out_.moves[op.getNumber()];
    if (move.target_spec != nullptr) return;  // read already, from another host's steps
    move.source = Take({static_cast<int64_t>(op.getSource())})[0];
    move.target = Take({static_cast<int64_t>(op.getTarget())})[0];
    move.source_spec = Spec(op.getFrom(), op);
    move.target_spec = Spec(op.getTo(), op);
  }
  void Read(AliasOp op, HostStep& step) {
    step.kind = HostStep::Kind::kAlias;
    step.arrays = Take({static_cast<int64_t>(op.getSource())});
    step.made = Take({static_cast<int64_t>(op.getTarget())});
    step.apart = op.getApart();
    step.spec = Spec(op.getType(), op);
  }
  void Read(ReleaseOp op, HostStep& step) {
    step.kind = HostStep::Kind::kRelease;
    step.arrays = Take(op.getArrays());
    step.apart = op.getApart().has_value();
    if (step.apart) step.spec = Spec(*op.getApart(), op);
  }

  std::vector<uint64_t> Take(llvm::ArrayRef<int64_t> slots) {
    std::vector<uint64_t> taken = Slots(slots);
    for (uint64_t slot : taken) {
      if (program::IsSlot(slot, program::SlotKind::kName)) out_.names = std::max(out_.names, program::SlotIndex(slot) + 1);
    }
    return taken;
  }

  program::SpecPtr Spec(mlir::Type type, mlir::Operation* at) {
    program::SpecPtr spec = places_.Spec(mlir::cast<ArrayType>(type), at);
    failed_ |= spec == nullptr;
    return spec;
  }

  program::SpecPtr SpecOf(mlir::Value value) {
    mlir::Operation* maker = value.getDefiningOp();
    const int node = NodeOf(maker->getLoc()).value_or(-1);
    if (mlir::isa<ArgOp>(maker) && node >= 0) return program_.nodes[node].spec;
    if (auto compute = mlir::dyn_cast<ComputeOp>(maker)) {
      const int number = static_cast<int>(symbols_.lookup<ExecutableOp>(compute.getExecutable()).getNumber());
      return executables_[number]->output_spec(static_cast<int>(mlir::cast<mlir::OpResult>(value).getResultNumber()));
    }
    return Spec(value.getType(), maker);
  }

  mlir::ModuleOp module_;
  const program::Program& program_;
  const absl::Span<const program::ExecutablePtr> executables_;
  const mlir::SymbolTable symbols_;
  Places places_;
  HostPrograms out_;
  bool failed_ = false;
};

}  // namespace

std::optional<HostPrograms> Export(mlir::ModuleOp module, const program::Program& program,
                                   absl::Span<const program::ExecutablePtr> executables) {
  return Exporter(module, program, executables).Run();
}

}  // namespace pw::ir
