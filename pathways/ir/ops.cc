// Verifiers of the operations, and the parsers and printers of slots and routes.
#include <algorithm>

#include "llvm/ADT/SmallSet.h"
#include "mlir/IR/Builders.h"
#include "pathways/ir/dialect.h"
#include "pathways/program/command_template.h"

namespace pw::ir {
namespace {

using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::SymbolTableCollection;
using program::SlotKind;

struct SlotWord {
  SlotKind kind;
  const char* word;
};
constexpr SlotWord kSlotWords[] = {{SlotKind::kArgument, "argument"}, {SlotKind::kResult, "result"}, {SlotKind::kName, "name"}};

mlir::ParseResult ParseSlotNumber(mlir::OpAsmParser& parser, int64_t& slot) {
  const llvm::SMLoc start = parser.getCurrentLocation();
  llvm::StringRef word;
  uint64_t index = 0;
  if (parser.parseKeyword(&word) || parser.parseInteger(index)) return failure();
  for (const SlotWord& known : kSlotWords) {
    if (word != known.word) continue;
    slot = static_cast<int64_t>(program::Slot(known.kind, index));
    return success();
  }
  return parser.emitError(start) << "a slot is an argument, a result or a name, not '" << word << "'";
}

void PrintSlotNumber(mlir::OpAsmPrinter& printer, int64_t slot) {
  for (const SlotWord& known : kSlotWords) {
    if (!program::IsSlot(static_cast<uint64_t>(slot), known.kind)) continue;
    printer << known.word << " " << program::SlotIndex(static_cast<uint64_t>(slot));
  }
}

mlir::ParseResult parseSlot(mlir::OpAsmParser& parser, mlir::IntegerAttr& slot) {
  int64_t number = 0;
  if (ParseSlotNumber(parser, number)) return failure();
  slot = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}
void printSlot(mlir::OpAsmPrinter& printer, Operation*, mlir::IntegerAttr slot) { PrintSlotNumber(printer, slot.getInt()); }

mlir::ParseResult parseSlots(mlir::OpAsmParser& parser, mlir::DenseI64ArrayAttr& slots) {
  llvm::SmallVector<int64_t> numbers;
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Paren,
                                     [&] { return ParseSlotNumber(parser, numbers.emplace_back()); })) {
    return failure();
  }
  slots = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}
void printSlots(mlir::OpAsmPrinter& printer, Operation*, mlir::DenseI64ArrayAttr slots) {
  printer << "(";
  llvm::interleaveComma(slots.asArrayRef(), printer, [&](int64_t slot) { PrintSlotNumber(printer, slot); });
  printer << ")";
}

mlir::ParseResult parseLaunch(mlir::OpAsmParser& parser, mlir::IntegerAttr& launch) {
  return failed(parser.parseOptionalKeyword("launch")) ? success() : parseSlot(parser, launch);
}
void printLaunch(mlir::OpAsmPrinter& printer, Operation* op, mlir::IntegerAttr launch) {
  if (!launch) return;
  printer << " launch ";
  printSlot(printer, op, launch);
}

mlir::ParseResult parseRoute(mlir::OpAsmParser& parser, mlir::StringAttr& route, mlir::IntegerAttr& bytes) {
  int64_t number = 0;
  for (const char* word : {"local", "copy", "scatter", "gather", "reshard"}) {
    if (failed(parser.parseOptionalKeyword(word))) continue;
    route = parser.getBuilder().getStringAttr(word);
    if (parser.parseInteger(number) || parser.parseKeyword("bytes")) return failure();
    break;
  }
  bytes = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}
void printRoute(mlir::OpAsmPrinter& printer, Operation*, mlir::StringAttr route, mlir::IntegerAttr bytes) {
  if (route) printer << " " << route.getValue() << " " << bytes.getInt() << " bytes";
}

// Checks that the mesh exists and is large enough for the tiles. The work does not grow with the number of shards.
LogicalResult CheckType(Operation* op, ArrayType type, SymbolTableCollection& symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(op, type.getMesh());
  if (!mesh) return op->emitError() << "there is no mesh " << type.getMesh();
  const int64_t shards = mesh.getSize();
  int64_t tiles = 1;
  for (int64_t count : type.getTiles()) {
    if (__builtin_mul_overflow(tiles, count, &tiles)) return op->emitError() << "too many tiles to count";
  }
  if (tiles > shards)
    return op->emitError() << "mesh " << type.getMesh() << " has " << shards << " devices for " << tiles << " tiles";
  if (!type.getOrder().empty() && static_cast<int64_t>(type.getOrder().size()) != shards) {
    return op->emitError() << "the order names tiles for " << type.getOrder().size() << " of " << shards << " devices";
  }
  if (type.getOrder().empty() && tiles > 1 && tiles != shards) {
    return op->emitError() << "which of the " << shards << " devices hold which of " << tiles << " tiles? An order has to say";
  }
  return success();
}

LogicalResult CheckTypes(Operation* op, SymbolTableCollection& symbols) {
  auto check = [&](mlir::Type type) { return CheckType(op, mlir::cast<ArrayType>(type), symbols); };
  for (mlir::Type type : op->getOperandTypes()) {
    if (failed(check(type))) return failure();
  }
  for (mlir::Type type : op->getResultTypes()) {
    if (failed(check(type))) return failure();
  }
  return success();
}

// Checks that the types of inputs and outputs are the executable's. Inputs may lie on other devices.
LogicalResult CheckCall(Operation* op, mlir::FlatSymbolRefAttr symbol, mlir::TypeRange inputs, mlir::TypeRange outputs,
                        SymbolTableCollection& symbols) {
  auto executable = symbols.lookupNearestSymbolFrom<ExecutableOp>(op, symbol);
  if (!executable) return op->emitError() << "there is no executable " << symbol;
  const auto type = mlir::cast<mlir::FunctionType>(executable.getType());
  const llvm::StringRef name = executable.getLabel();
  if (inputs.size() != type.getNumInputs()) {
    return op->emitError() << "program " << name << " takes " << type.getNumInputs() << " arguments, not " << inputs.size();
  }
  if (outputs.size() != type.getNumResults()) {
    return op->emitError() << "program " << name << " has " << type.getNumResults() << " results, not " << outputs.size();
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const auto given = mlir::cast<ArrayType>(inputs[k]), wanted = mlir::cast<ArrayType>(type.getInput(k));
    if (given.sameElements(wanted)) continue;
    return op->emitError() << "argument " << k << " of program " << name << " is " << given.shape() << " where " << wanted.shape()
                           << " is expected";
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k] == type.getResult(k)) continue;
    return op->emitError() << "result " << k << " of program " << name << " is " << type.getResult(k) << ", not " << outputs[k];
  }
  return success();
}

LogicalResult CheckOneShard(Operation* op, const char* what, ArrayType type, SymbolTableCollection& symbols) {
  const int64_t shards = symbols.lookupNearestSymbolFrom<MeshOp>(op, type.getMesh()).getSize();
  return shards == 1 ? success() : op->emitError() << what << " has one shard, not " << shards;
}

// Checks that the branch stands before the program, which rules out recursion, and has these types of inputs and outputs.
LogicalResult CheckBranch(Operation* op, mlir::TypeRange inputs, mlir::TypeRange outputs, ProgramOp branch) {
  const llvm::StringRef name = branch.getSymName();
  if (!branch->isBeforeInBlock(op->getParentOp()))
    return op->emitError() << "branch " << name << " does not stand before the program";
  size_t taken = 0, made = 0;
  for (ArgOp arg : branch.getOps<ArgOp>()) {
    const mlir::Type type = arg.getValue().getType();
    const size_t k = taken++;
    if (k < inputs.size() && inputs[k] != type)
      return op->emitError() << "input " << k << " is " << inputs[k] << " where branch " << name << " takes " << type;
  }
  for (ResultOp result : branch.getOps<ResultOp>()) {
    const mlir::Type type = result.getValue().getType();
    const size_t k = made++;
    if (k < outputs.size() && outputs[k] != type)
      return op->emitError() << "result " << k << " of branch " << name << " is " << type << ", not " << outputs[k];
  }
  if (taken == inputs.size() && made == outputs.size()) return success();
  return op->emitError() << "branch " << name << " takes " << taken << " arrays and makes " << made << ", not " << inputs.size()
                         << " and " << outputs.size();
}

bool HasRepeats(llvm::ArrayRef<int32_t> numbers) {
  llvm::SmallVector<int32_t> sorted(numbers.begin(), numbers.end());
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

}  // namespace

LogicalResult MeshOp::verify() {
  if (getSize() < 1) return emitError() << "a mesh has at least one device";
  for (auto list : {getDevices(), getVirtualDevices()}) {
    if (list && list->size() != getSize())
      return emitError() << "mesh " << getSymName() << " lists " << list->size() << " devices of " << getSize();
  }
  return success();
}

LogicalResult ExecutableOp::verify() {
  for (mlir::Type type : getType().getInputs()) {
    if (!mlir::isa<ArrayType>(type)) return emitError() << "program " << getLabel() << " takes " << type << ", which is no array";
  }
  for (mlir::Type type : getType().getResults()) {
    if (!mlir::isa<ArrayType>(type)) return emitError() << "program " << getLabel() << " makes " << type << ", which is no array";
  }
  for (int32_t k : Ints(getDonatesAttr())) {
    if (k < 0 || k >= static_cast<int32_t>(getType().getNumInputs()))
      return emitError() << "program " << getLabel() << " has no argument " << k << " to take over";
  }
  return success();
}

LogicalResult ExecutableOp::verifySymbolUses(SymbolTableCollection& symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh) return emitError() << "there is no mesh " << getMeshAttr();
  for (auto list : {mesh.getDevices(), mesh.getVirtualDevices()}) {
    if (list && HasRepeats(*list))
      return emitError() << "program " << getLabel() << " cannot run on mesh " << getMeshAttr() << ", which has a device twice";
  }
  for (auto types : {getType().getInputs(), getType().getResults()}) {
    for (mlir::Type type : types) {
      const auto array = mlir::cast<ArrayType>(type);
      if (failed(CheckType(*this, array, symbols))) return failure();
      if (array.getMesh() != getMeshAttr())
        return emitError() << "program " << getLabel() << " runs on mesh " << getMeshAttr() << " and cannot use " << type;
    }
  }
  return success();
}

LogicalResult VirtualDevicesOp::verify() {
  if (getHosts() && getHosts()->size() != getDevices().size()) return emitError() << "each virtual device is on one host";
  return success();
}

LogicalResult MachineOp::verify() {
  const size_t count = getDevices().size();
  if (getPhysical().size() != count || getHosts().size() != count || getIslands().size() != count)
    return emitError() << "the lists of a machine have an entry for each of its " << count << " devices";
  if (HasRepeats(getDevices())) return emitError() << "the machine has a device twice";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  int next = 0;
  for (ArgOp arg : getOps<ArgOp>()) {
    if (arg.getNumber() != static_cast<uint32_t>(next++))
      return arg.emitError() << "arguments are numbered in order, and this is argument " << next - 1;
  }
  return success();
}

LogicalResult TransferOp::verify() {
  if (getInput().getType().sameElements(getOutput().getType())) return success();
  return emitError() << "a transfer cannot make " << getOutput().getType().shape() << " of " << getInput().getType().shape();
}

LogicalResult HostComputeOp::verify() {
  if (getExecutable().has_value()) return success();
  for (mlir::Type type : (*this)->getResultTypes()) {
    if (mlir::cast<ArrayType>(type).getTiles().empty()) continue;
    return emitError() << "a host's function makes the same for all devices, and cannot make " << type;
  }
  return success();
}

LogicalResult SelectOp::verify() {
  const ArrayType type = getIndex().getType();
  const std::string shape = type.shape();
  if (!type.getDims().empty() || !(shape[0] == 's' || shape[0] == 'u'))
    return emitError() << "the index is a scalar integer, not " << shape;
  if (getBranches().empty()) return emitError() << "there is nothing to select among";
  return success();
}

LogicalResult WhileOp::verify() {
  const ArrayType type = getPredicate().getType();
  if (!type.getDims().empty() || type.getDtype() != buffers::DType::kPred)
    return emitError() << "the predicate is a scalar pred, not " << type.shape();
  const size_t inputs = getInputs().size(), outputs = getOutputs().size();
  if (outputs > inputs) return emitError() << "a loop with " << inputs << " inputs carries no " << outputs << " arrays";
  for (size_t k = 0; k < outputs; ++k) {
    const mlir::Type given = getInputs()[inputs - outputs + k].getType(), made = getOutputs()[k].getType();
    if (given != made)
      return emitError() << "carried array " << k << " is " << given << " before a turn and " << made << " after it";
  }
  return success();
}

#define PW_CHECK_TYPES(op) \
  LogicalResult op::verifySymbolUses(SymbolTableCollection& symbols) { return CheckTypes(*this, symbols); }
PW_CHECK_TYPES(ArgOp)
PW_CHECK_TYPES(TransferOp)
PW_CHECK_TYPES(ResultOp)
PW_CHECK_TYPES(RouteOp)
#undef PW_CHECK_TYPES

LogicalResult ComputeOp::verifySymbolUses(SymbolTableCollection& symbols) {
  if (failed(CheckTypes(*this, symbols))) return failure();
  return CheckCall(*this, getExecutableAttr(), getInputs().getTypes(), getOutputs().getTypes(), symbols);
}

LogicalResult HostComputeOp::verifySymbolUses(SymbolTableCollection& symbols) {
  if (failed(CheckTypes(*this, symbols))) return failure();
  if (mlir::FlatSymbolRefAttr executable = getExecutableAttr())
    return CheckCall(*this, executable, getInputs().getTypes(), getOutputs().getTypes(), symbols);
  for (mlir::Value input : getInputs()) {
    if (failed(CheckOneShard(*this, "an operand of a host's function", mlir::cast<ArrayType>(input.getType()), symbols)))
      return failure();
  }
  return success();
}

LogicalResult SelectOp::verifySymbolUses(SymbolTableCollection& symbols) {
  if (failed(CheckTypes(*this, symbols)) || failed(CheckOneShard(*this, "the index", getIndex().getType(), symbols)))
    return failure();
  for (mlir::Attribute attribute : getBranches()) {
    const auto symbol = mlir::cast<mlir::FlatSymbolRefAttr>(attribute);
    auto branch = symbols.lookupNearestSymbolFrom<ProgramOp>(*this, symbol);
    const LogicalResult fits = branch ? CheckBranch(*this, getInputs().getTypes(), getOutputs().getTypes(), branch)
                                      : CheckCall(*this, symbol, getInputs().getTypes(), getOutputs().getTypes(), symbols);
    if (failed(fits)) return failure();
  }
  return success();
}

LogicalResult WhileOp::verifySymbolUses(SymbolTableCollection& symbols) {
  if (failed(CheckTypes(*this, symbols)) || failed(CheckOneShard(*this, "the predicate", getPredicate().getType(), symbols)))
    return failure();
  auto turn = symbols.lookupNearestSymbolFrom<ProgramOp>(*this, getTurnAttr());
  if (!turn) return emitError() << "there is no program " << getTurnAttr();
  llvm::SmallVector<mlir::Type> made(getOutputs().getTypes());
  made.push_back(getPredicate().getType());
  return CheckBranch(*this, getInputs().getTypes(), made, turn);
}

LogicalResult ExecuteOp::verifySymbolUses(SymbolTableCollection& symbols) {
  if (symbols.lookupNearestSymbolFrom<ExecutableOp>(*this, getExecutableAttr())) return success();
  return emitError() << "there is no executable " << getExecutableAttr();
}

}  // namespace pw::ir

#define GET_OP_CLASSES
#include "pathways/ir/ops.cc.inc"
