#include "pathways/ir/opt.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "google/protobuf/text_format.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "pathways/base/status_macros.h"
#include "pathways/ir/import.h"
#include "pathways/ir/passes.h"
#include "pathways/v1/program.pb.h"

namespace pw::ir {
namespace {

absl::StatusOr<program::ExecutablePtr> Record(const ::pathways::v1::ProgramExecutable& executable,
                                              const ::pathways::v1::Compiled& compiled) {
  program::Executable record;
  record.num_replicas = executable.num_replicas();
  record.num_partitions = executable.num_partitions();
  for (int32_t device : executable.devices()) record.devices.push_back(DeviceId(device));
  return program::CompleteExecutable(std::move(record), compiled);
}

absl::Status ImportAndPrint(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  ::pathways::v1::CompiledProgram input;
  if (!file || !google::protobuf::TextFormat::ParseFromString(text.str(), &input))
    return absl::InvalidArgumentError(absl::StrCat(path, " does not hold the text of a CompiledProgram"));
  PW_ASSIGN_OR_RETURN(const program::Program program, program::ParseProgram(input.program().SerializeAsString()));
  if (input.executables_size() != input.program().executables_size())
    return absl::InvalidArgumentError("each executable of the program needs what it compiled to");
  std::vector<program::ExecutablePtr> executables;
  for (int i = 0; i < input.executables_size(); ++i) {
    PW_ASSIGN_OR_RETURN(executables.emplace_back(), Record(input.program().executables(i), input.executables(i)));
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  PW_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, Import(&context, program, executables));
  module->print(llvm::outs(), mlir::OpPrintingFlags().enableDebugInfo(true, false));
  return absl::OkStatus();
}

}  // namespace

int OptMain(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--import-program") {
    const absl::Status status = ImportAndPrint(argv[2]);
    if (!status.ok()) std::cerr << status.message() << "\n";
    return status.ok() ? 0 : 1;
  }
  registerPathwaysPasses();
  mlir::PassPipelineRegistration<>("pw-portable", "what is done once, whatever the mapping", AddPortablePasses);
  mlir::PassPipelineRegistration<>("pw-lower", "what is done for each mapping, after pw-portable", AddPlacementPasses);
  mlir::DialectRegistry registry;
  registry.insert<PwDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Pathways IR", registry));
}

}  // namespace pw::ir
