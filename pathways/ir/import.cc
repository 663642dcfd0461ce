#include "pathways/ir/import.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mlir/IR/Builders.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/op_sharding.h"

namespace pw::ir {
namespace {

using program::Node;
using program::NodeKind;

class Importer {
 public:
  Importer(mlir::MLIRContext* context, const program::Program& program, absl::Span<const program::ExecutablePtr> executables)
      : context_(context), program_(program), executables_(executables), builder_(context) {
    context->loadDialect<PwDialect>();
    module_ = mlir::ModuleOp::create(mlir::UnknownLoc::get(context));
    builder_.setInsertionPointToStart(module_->getBody());
  }

  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> Run() {
    for (size_t b = 0; b <= program_.branches.size(); ++b) {
      const bool is_whole = b == program_.branches.size();
      const std::string& name = program_.name.empty() ? "program" : program_.name;
      programs_.push_back(
          builder_.create<ProgramOp>(MakeLocation(context_, 0, ""), is_whole ? absl::StrCat(name) : absl::StrCat("b", b)));
    }
    // Meshes are inserted when they are first used, so they stand before the executables and programs that use them.
    builder_.setInsertionPoint(programs_.front());
    for (size_t i = 0; i < executables_.size(); ++i) PW_RETURN_IF_ERROR(AddExecutable(static_cast<int>(i)));
    for (size_t b = 0; b < program_.branches.size(); ++b) PW_RETURN_IF_ERROR(AddNodes(program_.branches[b], programs_[b]));
    PW_RETURN_IF_ERROR(AddNodes(program_, programs_.back()));
    return std::move(module_);
  }

 private:
  mlir::FlatSymbolRefAttr MeshOf(const std::vector<DeviceId>& devices) {
    mlir::FlatSymbolRefAttr& mesh = meshes_[devices];
    if (mesh) return mesh;
    const std::string name = absl::StrCat("m", meshes_.size() - 1);
    std::vector<int32_t> numbers;
    for (DeviceId device : devices) numbers.push_back(device.v);
    builder_.create<MeshOp>(module_->getLoc(), name, static_cast<uint32_t>(numbers.size()),
                            builder_.getDenseI32ArrayAttr(numbers), nullptr);
    return mesh = mlir::FlatSymbolRefAttr::get(context_, name);
  }

  ArrayType TypeOf(const buffers::ArraySpec& spec) {
    const buffers::Tiles& tiles = spec.sharding.tiles();
    return ArrayType::get(context_, spec.dtype, spec.dims, MeshOf(spec.sharding.devices()), tiles.counts, tiles.tile_of_shard,
                          spec.sharding.memory_kind());
  }

  absl::Status AddExecutable(int i) {
    const program::Executable& executable = *executables_[i];
    llvm::SmallVector<mlir::Type> parameters, outputs;
    for (size_t k = 0; k < executable.parameters.size(); ++k) {
      PW_ASSIGN_OR_RETURN(const buffers::ArraySpec spec, program::ParameterSpec(executable, static_cast<int>(k)));
      parameters.push_back(TypeOf(spec));
    }
    for (const buffers::ArraySpec& spec : *executable.output_specs) outputs.push_back(TypeOf(spec));
    const mlir::FlatSymbolRefAttr mesh = MeshOf(executable.devices);
    auto op = builder_.create<ExecutableOp>(
        LocationOfUser(i), absl::StrCat("e", i), static_cast<uint32_t>(i), executable.name, mesh.getValue(),
        executable.donated_inputs.empty() ? nullptr : builder_.getDenseI32ArrayAttr(executable.donated_inputs),
        builder_.getFunctionType(parameters, outputs));
    executable_ops_.push_back(op);
    return absl::OkStatus();
  }

  // Returns the location of the first node that runs the executable.
  mlir::Location LocationOfUser(int executable) const {
    for (size_t n = 0; n < program_.nodes.size(); ++n) {
      if (program_.nodes[n].executable == executable)
        return MakeLocation(context_, static_cast<int>(n), program_.nodes[n].location);
    }
    return mlir::UnknownLoc::get(context_);
  }

  absl::Status AddNodes(const program::Program& program, ProgramOp op) {
    mlir::OpBuilder body = mlir::OpBuilder::atBlockBegin(&op.getBody().emplaceBlock());
    values_.clear();
    args_ = 0;
    for (size_t n = 0; n < program.nodes.size(); ++n) {
      PW_RETURN_IF_ERROR(program.At(static_cast<int>(n), AddNode(body, program.nodes[n], static_cast<int>(n))));
    }
    return absl::OkStatus();
  }

  absl::Status AddNode(mlir::OpBuilder& body, const Node& node, int n) {
    const mlir::Location location = MakeLocation(context_, n, node.location);
    llvm::SmallVector<mlir::Value> inputs;
    for (int input : node.inputs) inputs.push_back(values_[input]);
    if (node.kind == NodeKind::kArg) {
      values_.push_back(body.create<ArgOp>(location, TypeOf(*node.spec), args_++, node.donated, node.apart));
    } else if (node.kind == NodeKind::kResult) {
      body.create<ResultOp>(location, inputs[0]);
    } else if (node.kind == NodeKind::kTransfer) {
      PW_ASSIGN_OR_RETURN(const ArrayType type, TransferType(node, mlir::cast<ArrayType>(inputs[0].getType())));
      values_.push_back(body.create<TransferOp>(location, type, inputs[0], nullptr));
    } else if (node.waits()) {
      AddWaiting(body, node, location, inputs);
    } else {
      const auto type = mlir::cast<mlir::FunctionType>(executable_ops_[node.executable].getType());
      if (node.num_outputs != static_cast<int>(type.getNumResults())) {
        return absl::InvalidArgumentError(absl::StrCat("program ", executables_[node.executable]->name, " has ",
                                                       type.getNumResults(), " results, not ", node.num_outputs));
      }
      auto compute = body.create<ComputeOp>(location, type.getResults(), executable_ops_[node.executable].getSymName(), inputs);
      values_.append(compute.getOutputs().begin(), compute.getOutputs().end());
    }
    return absl::OkStatus();
  }

  void AddWaiting(mlir::OpBuilder& body, const Node& node, mlir::Location location, llvm::ArrayRef<mlir::Value> inputs) {
    llvm::SmallVector<mlir::Type> types;
    for (const auto& output : node.outputs) types.push_back(TypeOf(*output));
    if (node.kind == NodeKind::kWhile) {
      auto loop =
          body.create<WhileOp>(location, types, inputs[0],
                               mlir::FlatSymbolRefAttr::get(programs_[node.branches[0]].getSymNameAttr()), inputs.drop_front());
      values_.append(loop.getOutputs().begin(), loop.getOutputs().end());
      return;
    }
    if (node.kind == NodeKind::kRoute) {
      auto route = body.create<RouteOp>(location, types, node.back, static_cast<uint32_t>(node.groups), inputs);
      values_.append(route.getOutputs().begin(), route.getOutputs().end());
      return;
    }
    if (node.kind != NodeKind::kSelect) {
      const bool in_client = node.kind == NodeKind::kHostCall;
      auto call = body.create<HostComputeOp>(
          location, types, node.function, in_client ? body.getI64IntegerAttr(static_cast<int64_t>(node.callback)) : nullptr,
          in_client ? nullptr : mlir::FlatSymbolRefAttr::get(executable_ops_[node.executable].getSymNameAttr()), inputs);
      values_.append(call.getOutputs().begin(), call.getOutputs().end());
      return;
    }
    llvm::SmallVector<mlir::Attribute> branches;
    for (int branch : node.branches) branches.push_back(mlir::FlatSymbolRefAttr::get(programs_[branch].getSymNameAttr()));
    auto select = body.create<SelectOp>(location, types, inputs[0], body.getArrayAttr(branches), inputs.drop_front());
    values_.append(select.getOutputs().begin(), select.getOutputs().end());
  }

  absl::StatusOr<ArrayType> TransferType(const Node& node, ArrayType from) {
    const auto& proto = program_.proto->shardings(node.sharding);
    ArrayType& known = transfer_types_[{node.sharding, from.getAsOpaquePointer()}];
    if (known) return known;
    std::vector<DeviceId> devices;
    for (int32_t id : proto.devices()) devices.push_back(DeviceId(id));
    buffers::ArraySpec spec;
    spec.dtype = from.getDtype();
    spec.dims.assign(from.getDims().begin(), from.getDims().end());
    if (devices.empty()) return absl::InvalidArgumentError("its sharding has no devices");
    PW_ASSIGN_OR_RETURN(spec.sharding, program::OpShardingToSharding(proto.op_sharding(), std::move(devices), proto.memory_kind(),
                                                                     static_cast<int>(spec.dims.size())));
    PW_RETURN_IF_ERROR(buffers::Validate(spec));
    return known = TypeOf(spec);
  }

  mlir::MLIRContext* const context_;
  const program::Program& program_;
  const absl::Span<const program::ExecutablePtr> executables_;
  mlir::OpBuilder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::map<std::vector<DeviceId>, mlir::FlatSymbolRefAttr> meshes_;
  std::map<std::pair<int, const void*>, ArrayType> transfer_types_;
  std::vector<ExecutableOp> executable_ops_;
  std::vector<ProgramOp> programs_;  // the branches, then the whole program
  llvm::SmallVector<mlir::Value> values_;
  uint32_t args_ = 0;
};

}  // namespace

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> Import(mlir::MLIRContext* context, const program::Program& program,
                                                         absl::Span<const program::ExecutablePtr> executables) {
  return Importer(context, program, executables).Run();
}

}  // namespace pw::ir
