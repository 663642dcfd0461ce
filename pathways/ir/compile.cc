#include "pathways/ir/compile.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/base/status_macros.h"
#include "pathways/ir/export.h"
#include "pathways/ir/import.h"
#include "pathways/ir/passes.h"

namespace pw::ir {
namespace {

// An MLIR context for one call. Keeps the first error reported in it.
class Work {
 public:
  explicit Work(const program::Program* program)
      : context_(mlir::MLIRContext::Threading::DISABLED),
        handler_(&context_,
                 [this](mlir::Diagnostic& d) {
                   if (d.getSeverity() != mlir::DiagnosticSeverity::Error || !error_.empty()) return;
                   error_ = d.str();
                   node_ = NodeOf(d.getLocation());
                 }),
        program_(program) {
    context_.loadDialect<PwDialect>();
  }
  mlir::MLIRContext* context() { return &context_; }

  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> Read(std::string_view portable) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(llvm::StringRef(portable.data(), portable.size()), &context_);
    if (!module) return Error();
    return module;
  }

  absl::Status RunPasses(mlir::ModuleOp module, void (*add)(mlir::OpPassManager&)) {
    mlir::PassManager passes(&context_);
    passes.enableVerifier(false);  // the input is verified; the passes' outputs are verified in their tests
    add(passes);
    return failed(passes.run(module)) ? Error() : absl::OkStatus();
  }

  absl::Status Error() const {
    const absl::Status status =
        absl::InvalidArgumentError(error_.empty() ? "the program does not lower, and no pass says why" : error_);
    const bool known = program_ != nullptr && node_ && *node_ >= 0 && *node_ < static_cast<int>(program_->nodes.size());
    return known ? program_->At(*node_, status) : status;
  }

 private:
  mlir::MLIRContext context_;
  mlir::ScopedDiagnosticHandler handler_;
  const program::Program* const program_;
  std::string error_;
  std::optional<int> node_;
};

// Adds a pw.machine with the present state of the program's devices.
absl::Status AddMachine(mlir::ModuleOp module, const resource::Topology& topology) {
  auto devices = TheOnly<VirtualDevicesOp>(module);
  if (!devices) return absl::InternalError("the portable program has no devices");
  std::vector<int32_t> ids, physical, hosts, islands;
  std::vector<int32_t> all(devices.getDevices().begin(), devices.getDevices().end());
  SortAndMerge(all);
  for (auto* column : {&ids, &physical, &hosts, &islands}) column->reserve(all.size());
  for (int32_t id : all) {
    PW_ASSIGN_OR_RETURN(const resource::Device* device, topology.GetDevice(DeviceId(id)));
    ids.push_back(id);
    physical.push_back(device->physical.v);
    hosts.push_back(static_cast<int32_t>(device->host.v));
    islands.push_back(static_cast<int32_t>(device->island.v));
  }
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(module.getBody());
  builder.create<MachineOp>(module.getLoc(), builder.getDenseI32ArrayAttr(ids), builder.getDenseI32ArrayAttr(physical),
                            builder.getDenseI32ArrayAttr(hosts), builder.getDenseI32ArrayAttr(islands));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ImportProgram(const program::Program& program, absl::Span<const program::ExecutablePtr> executables) {
  Work work(&program);
  PW_ASSIGN_OR_RETURN(const mlir::OwningOpRef<mlir::ModuleOp> module, Import(work.context(), program, executables));
  if (failed(mlir::verify(*module))) return work.Error();
  PW_RETURN_IF_ERROR(work.RunPasses(*module, AddPortablePasses));
  std::string bytes;
  llvm::raw_string_ostream out(bytes);
  if (failed(mlir::writeBytecodeToFile(*module, out))) return work.Error();
  return bytes;
}

absl::StatusOr<program::HostPrograms> LowerProgram(std::string_view portable, const program::Program& program,
                                                   absl::Span<const program::ExecutablePtr> executables,
                                                   const resource::Topology& topology) {
  Work work(&program);
  PW_ASSIGN_OR_RETURN(const mlir::OwningOpRef<mlir::ModuleOp> module, work.Read(portable));
  PW_RETURN_IF_ERROR(AddMachine(*module, topology));
  PW_RETURN_IF_ERROR(work.RunPasses(*module, AddPlacementPasses));
  std::optional<program::HostPrograms> exported = Export(*module, program, executables);
  if (!exported) return work.Error();
  return *std::move(exported);
}

std::string PrintProgram(std::string_view portable) {
  Work work(nullptr);
  auto module = work.Read(portable);
  if (!module.ok()) return std::string(module.status().message());
  std::string text;
  llvm::raw_string_ostream out(text);
  (*module)->print(out, mlir::OpPrintingFlags().enableDebugInfo(true, false));
  return text;
}

}  // namespace pw::ir
