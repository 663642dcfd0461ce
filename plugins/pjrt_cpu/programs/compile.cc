// Compilation, ahead of time and for a client, and loading of serialized executables.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "plugins/pjrt_cpu/all_reduce.h"
#include "plugins/pjrt_cpu/handles.h"
#include "plugins/pjrt_cpu/placement.h"
#include "plugins/pjrt_cpu/programs/compile_options.h"
#include "plugins/pjrt_cpu/programs/contained.h"
#include "plugins/pjrt_cpu/programs/open_shardings.h"
#include "plugins/pjrt_cpu/programs/shard_calls.h"
#include "plugins/pjrt_cpu/programs/small_floats.h"
#include "plugins/pjrt_cpu/versions/xla.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/layout_util.h"
#include "xla/pjrt/host_memory_spaces.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/service/collective_ops_utils.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_module_util.h"
#include "xla/shape_util.h"

// Declared in headers of the wheel that need LLVM's.
namespace xla {
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> ParseMlirModuleString(absl::string_view text, mlir::MLIRContext& context);
}  // namespace xla
namespace tensorflow {
std::string MlirModuleToString(mlir::ModuleOp module, bool show_debug_info);
}  // namespace tensorflow

namespace pw::pjrt_cpu {
namespace {

// Programs with fewer bytes of arguments, results and scratch run on the caller's thread if XLA considers them cheap. Larger ones always go
// to a pool thread, because XLA judges by the kinds of operations and not by their size.
constexpr int64_t kInlineBytes = 64 << 10;
constexpr int64_t kMostLoops = 4096;  // turns of all loops together, for which the caller waits

absl::StatusOr<xla::XlaComputation> ParseHlo(const PJRT_Program& program, absl::string_view format) {
  const absl::string_view code(program.code, program.code_size);
  if (format == "hlo") {
    xla::HloModuleProto proto;
    if (!proto.ParseFromString(code)) return absl::InvalidArgumentError("the program is not a serialized HloModuleProto");
    return xla::XlaComputation(std::move(proto));
  }
  xla::HloModuleProtoWithConfig proto;
  if (!proto.ParseFromString(code)) {
    return absl::InvalidArgumentError("the program is not a serialized HloModuleProtoWithConfig");
  }
  return xla::XlaComputation(std::move(*proto.mutable_hlo_module()));
}

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> ParseModule(absl::string_view code, mlir::MLIRContext& context) {
  const std::optional<std::string> readable = WithSmallFloatsAsText(code);
  if (readable.has_value()) code = *readable;
  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> module = xla::ParseMlirModuleString(code, context);
  if (!module.ok() || !HasPlacement(code)) return module;
  const std::string text = tensorflow::MlirModuleToString(module->get(), /*show_debug_info=*/true);
  return xla::ParseMlirModuleString(WithoutPlacement(text), context);
}

// Compiles the module. If the compiler chose shardings that split axes, compiles it again with other shardings written into it.
template <typename Compile>
auto CompileModule(absl::string_view code, const xla::CompileOptions& options, Compile compile)
    -> decltype(compile(mlir::ModuleOp(), options)) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> module = ParseModule(code, context);
  if (!module.ok()) return module.status();
  const absl::StatusOr<std::vector<Mesh>> meshes = MeshesOfOpenShardings(module->get(), options);
  if (!meshes.ok()) return meshes.status();
  auto executable = compile(module->get(), options);
  if (!executable.ok() || meshes->empty()) return executable;
  const std::vector<ClosedSharding> closed =
      CloseSplitShardings(*meshes, options, (*executable)->GetParameterShardings(), (*executable)->GetOutputShardings());
  if (closed.empty()) return executable;
  module = ParseModule(code, context);  // the compiler has changed the first one in place
  if (!module.ok()) return module.status();
  if (absl::Status s = WriteShardings(closed, module->get(), context); !s.ok()) return s;
  return compile(module->get(), options);
}

// Parses the program and calls `compile` with a module or a computation, and with the options.
template <typename Compile>
auto WithProgram(const PJRT_Program& program, xla::CompileOptions options, Compile compile)
    -> decltype(compile(xla::XlaComputation(), options)) {
  const absl::string_view format(program.format, program.format_size);
  if (format == "mlir") {
    return CompileModule(absl::string_view(program.code, program.code_size), options, compile);
  }
  if (format == "hlo" || format == "hlo_with_config") {
    absl::StatusOr<xla::XlaComputation> computation = ParseHlo(program, format);
    if (!computation.ok()) return computation.status();
    return compile(*computation, std::move(options));
  }
  return absl::InvalidArgumentError(absl::StrCat("program format '", format, "' is unknown; use mlir, hlo or hlo_with_config"));
}

PJRT_Error* CompileForClient(PJRT_Client_Compile_Args* args) {
  PW_ASSIGN_OR_RETURN(xla::CompileOptions options, ReadCompileOptions(args->compile_options, args->compile_options_size));
  xla::PjRtClient* client = args->client->client.get();
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtLoadedExecutable> executable, Contained([&] {
                        return WithProgram(*args->program, std::move(options),
                                           [client](const auto& program, xla::CompileOptions o) {
                                             return client->CompileAndLoad(versions::Borrow(program), std::move(o));
                                           });
                      }));
  PW_ASSIGN_OR_RETURN(args->executable, WrapLoaded(args->client, std::move(executable)));
  return nullptr;
}

// Returns a client that only compiles, with as many devices as the topology.
absl::StatusOr<std::unique_ptr<xla::PjRtClient>> CompilerFor(const xla::PjRtTopologyDescription& topology) {
  xla::CpuClientOptions options;
  options.cpu_device_count = static_cast<int>(topology.DeviceDescriptions().size());
  return xla::GetXlaPjrtCpuClient(std::move(options));
}

absl::string_view KindOf(const xla::Shape& shape) {
  const bool host = shape.has_layout() && shape.layout().memory_space() == xla::Layout::kHostMemorySpace;
  return host ? xla::PinnedHostMemorySpace::kKind : xla::CpuDeviceMemorySpace::kKind;
}

void AddOutput(const xla::Shape& shape, ProgramFacts& facts) {
  facts.output_types.push_back(ToBufferType(shape.element_type()));
  const size_t rank = shape.IsArray() ? shape.dimensions().size() : 0;
  facts.output_ranks.push_back(rank);
  for (size_t i = 0; i < rank; ++i) facts.output_dims.push_back(shape.dimensions(i));
  if (KindOf(shape) != xla::CpuDeviceMemorySpace::kKind) facts.results_elsewhere.push_back(facts.output_kinds.size());
  facts.output_kinds.push_back(KindOf(shape).data());
  facts.output_kind_sizes.push_back(KindOf(shape).size());
  facts.output_bytes.push_back(shape.IsArray() ? xla::ShapeUtil::ByteSizeOf(shape, sizeof(void*)) : 0);
  xla::Layout layout = shape.has_layout() ? shape.layout() : xla::LayoutUtil::GetDefaultLayoutForRank(rank);
  layout.set_memory_space(xla::Layout::kDefaultMemorySpace);
  facts.output_layouts.push_back({std::move(layout)});
}

absl::StatusOr<std::shared_ptr<const ProgramFacts>> Examine(const xla::PjRtExecutable& executable) {
  auto facts = std::make_shared<ProgramFacts>();
  facts->name = std::string(executable.name());
  if (absl::StatusOr<std::string> print = executable.FingerprintExecutable(); print.ok()) facts->fingerprint = *print;
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  if (!modules.ok()) return modules.status();
  if (modules->empty()) return absl::InternalError("the executable has no HLO module");
  const xla::HloModule& module = *modules->front();
  const xla::Shape& result = module.entry_computation_layout().result_shape();  // with the requested memory spaces
  if (result.IsTuple()) {
    for (const xla::Shape& element : result.tuple_shapes()) AddOutput(element, *facts);
  } else {
    AddOutput(result, *facts);
  }
  for (PJRT_Layouts_MemoryLayout& layout : facts->output_layouts) facts->output_layout_pointers.push_back(&layout);
  module.input_output_alias_config().ForEachAlias(
      [&](const xla::ShapeIndex&, const xla::HloInputOutputAliasConfig::Alias& alias) {
        facts->donatable_inputs.push_back(static_cast<int>(alias.parameter_number));
      });
  return std::shared_ptr<const ProgramFacts>(std::move(facts));
}

PJRT_Error* CompileAheadOfTime(PJRT_Compile_Args* args) {
  PW_ASSIGN_OR_RETURN(xla::CompileOptions options, ReadCompileOptions(args->compile_options, args->compile_options_size));
  std::unique_ptr<xla::PjRtClient> owned;
  xla::PjRtClient* client = nullptr;
  if (args->client != nullptr) {
    client = args->client->client.get();
  } else {
    PW_ASSIGN_OR_RETURN(owned, CompilerFor(*args->topology->topology));
    client = owned.get();
  }
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtExecutable> executable, Contained([&] {
                        return WithProgram(*args->program, std::move(options),
                                           [client](const auto& program, xla::CompileOptions o) {
                                             return client->Compile(versions::Borrow(program), std::move(o));
                                           });
                      }));
  auto result = std::make_unique<PJRT_Executable>();
  PW_ASSIGN_OR_RETURN(result->facts, Examine(*executable));
  result->executable = std::move(executable);
  args->executable = result.release();
  return nullptr;
}

PJRT_Error* Deserialize(PJRT_Executable_DeserializeAndLoad_Args* args) {
  std::optional<xla::CompileOptions> options;
  if (PW_HAS_FIELD(args, overridden_serialized_compile_options_size) && args->overridden_serialized_compile_options != nullptr) {
    PW_ASSIGN_OR_RETURN(options, ReadCompileOptions(args->overridden_serialized_compile_options,
                                                    args->overridden_serialized_compile_options_size));
  }
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtLoadedExecutable> executable, Contained([&] {
                        return args->client->client->LoadSerializedExecutable(
                            absl::string_view(args->serialized_executable, args->serialized_executable_size), std::move(options),
                            xla::LoadOptions());
                      }));
  PW_ASSIGN_OR_RETURN(args->loaded_executable, WrapLoaded(args->client, std::move(executable)));
  return nullptr;
}

// Returns whether this instruction waits for the program's other devices.
bool MeetsOthers(const xla::HloInstruction& instruction) {
  switch (instruction.opcode()) {
    case xla::HloOpcode::kAllGather:
    case xla::HloOpcode::kAllGatherStart:
    case xla::HloOpcode::kAllReduce:
    case xla::HloOpcode::kAllReduceStart:
    case xla::HloOpcode::kAllToAll:
    case xla::HloOpcode::kCollectiveBroadcast:
    case xla::HloOpcode::kCollectivePermute:
    case xla::HloOpcode::kCollectivePermuteStart:
    case xla::HloOpcode::kRaggedAllToAll:
    case xla::HloOpcode::kReduceScatter:
      return true;
    default:
      return false;
  }
}

// Returns whether this instruction waits for the host.
bool AsksTheHost(const xla::HloInstruction& instruction) {
  switch (instruction.opcode()) {
    case xla::HloOpcode::kInfeed:
    case xla::HloOpcode::kOutfeed:
    case xla::HloOpcode::kRecv:
    case xla::HloOpcode::kSend:
      return true;
    case xla::HloOpcode::kCustomCall:
      return instruction.custom_call_target() == "xla_ffi_python_cpu_callback" ||
             instruction.custom_call_target() == kCallbackOnShards;
    default:
      return false;
  }
}

// Returns whether the program waits for other devices or the host; true in doubt. It must then not run on the caller's thread,
// which has yet to launch it on the other devices. Collectives that XLA leaves in a program for one device do not wait.
bool WaitsForOthers(const xla::PjRtLoadedExecutable& executable) {
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  if (!modules.ok()) return true;
  const bool alone = executable.num_replicas() * executable.num_partitions() == 1;
  for (const std::shared_ptr<xla::HloModule>& module : *modules) {
    for (const xla::HloComputation* computation : module->computations()) {
      for (const xla::HloInstruction* instruction : computation->instructions()) {
        if (AsksTheHost(*instruction) || (!alone && MeetsOthers(*instruction))) return true;
      }
    }
  }
  return false;
}

bool IsSmall(const xla::PjRtLoadedExecutable& executable) {
  absl::StatusOr<xla::CompiledMemoryStats> stats = executable.GetCompiledMemoryStats();
  if (!stats.ok()) return true;
  return stats->argument_size_in_bytes + stats->output_size_in_bytes + stats->temp_size_in_bytes <= kInlineBytes;
}

// Returns whether our all-reduce (ReducesHere) performs this instruction, for every operand.
bool IsOurAllReduce(const xla::HloInstruction& instruction) {
  const std::optional<xla::ReductionKind> kind = xla::MatchReductionComputation(instruction.to_apply());
  if (!kind.has_value()) return false;
  for (const xla::HloInstruction* operand : instruction.operands()) {
    const xla::Shape& shape = operand->shape();
    if (!shape.IsArray() || !ReducesHere(shape.element_type(), *kind, xla::ShapeUtil::ElementsIn(shape))) return false;
  }
  return true;
}

// Returns the trip count of a loop if the compiler knows it, else 0.
int64_t TripCount(const xla::HloInstruction& loop) {
  const std::string& config = loop.raw_backend_config_string();
  static constexpr absl::string_view kCount = "\"known_trip_count\":{\"n\":\"";
  const size_t at = config.find(kCount);
  return at == std::string::npos ? 0 : std::strtoll(config.c_str() + at + kCount.size(), nullptr, 10);
}

// Returns whether the program's loops end after few turns. XLA calls a program cheap by the operations of one turn of each loop, and would run
// an endless one on the thread that launches programs for all devices.
bool LoopsEndSoon(const xla::PjRtLoadedExecutable& executable) {
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  if (!modules.ok()) return false;
  int64_t turns = 1;
  for (const std::shared_ptr<xla::HloModule>& module : *modules) {
    for (const xla::HloComputation* computation : module->computations()) {
      for (const xla::HloInstruction* instruction : computation->instructions()) {
        if (instruction->opcode() != xla::HloOpcode::kWhile) continue;
        const int64_t count = TripCount(*instruction);
        if (count < 1 || count > kMostLoops / turns) return false;
        turns *= count;
      }
    }
  }
  return true;
}

// Returns whether XLA executes the instruction, of any size, on the thread that reaches it: without Eigen's threads or libraries.
bool StaysOnThread(const xla::HloInstruction& instruction) {
  switch (instruction.opcode()) {
    case xla::HloOpcode::kAllReduce:
      return IsOurAllReduce(instruction);
    case xla::HloOpcode::kFusion:
      return instruction.fusion_kind() != xla::HloInstruction::FusionKind::kCustom;  // a library's kernel may have threads
    case xla::HloOpcode::kBitcast:
    case xla::HloOpcode::kBroadcast:
    case xla::HloOpcode::kCall:
    case xla::HloOpcode::kConcatenate:
    case xla::HloOpcode::kConditional:
    case xla::HloOpcode::kConstant:
    case xla::HloOpcode::kDynamicSlice:
    case xla::HloOpcode::kDynamicUpdateSlice:
    case xla::HloOpcode::kGather:
    case xla::HloOpcode::kGetTupleElement:
    case xla::HloOpcode::kIota:
    case xla::HloOpcode::kPad:
    case xla::HloOpcode::kParameter:
    case xla::HloOpcode::kPartitionId:
    case xla::HloOpcode::kReduce:
    case xla::HloOpcode::kReplicaId:
    case xla::HloOpcode::kReshape:
    case xla::HloOpcode::kReverse:
    case xla::HloOpcode::kScatter:
    case xla::HloOpcode::kSlice:
    case xla::HloOpcode::kTranspose:
    case xla::HloOpcode::kTuple:
    case xla::HloOpcode::kWhile:
      return true;
    default:
      return instruction.IsElementwise();
  }
}

// XLA runs the steps of a computation in sequence if they are few, or if all their data is this small.
constexpr int kSequentialSteps = 8;
constexpr int64_t kSequentialBytes = 512;

bool RunsInSequence(const xla::HloComputation& computation) {
  int64_t largest = 0;
  for (const xla::HloInstruction* instruction : computation.instructions()) {
    if (instruction->shape().IsToken()) continue;
    largest = std::max<int64_t>(largest, xla::ShapeUtil::ByteSizeOf(instruction->shape(), sizeof(void*)));
  }
  return largest <= kSequentialBytes || computation.instruction_count() <= kSequentialSteps;
}

// Returns whether the launches on all devices can run as fibers of one thread (fibers.h, invariant 2). No instruction may leave
// the thread, and only our own all-reduces may block.
bool CanTakeTurns(const xla::PjRtLoadedExecutable& executable) {
  if (executable.addressable_devices().size() < 2) return false;
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  if (!modules.ok() || modules->size() != 1) return false;
  int64_t loops = 1;
  for (const xla::HloComputation* computation : modules->front()->computations()) {
    if (computation->IsFusionComputation()) continue;
    if (!RunsInSequence(*computation)) return false;
    for (const xla::HloInstruction* instruction : computation->instructions()) {
      if (!StaysOnThread(*instruction)) return false;
      if (instruction->opcode() == xla::HloOpcode::kWhile) loops *= TripCount(*instruction);
      if (loops < 1 || loops > kMostLoops) return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<PJRT_LoadedExecutable*> WrapLoaded(PJRT_Client* client, std::unique_ptr<xla::PjRtLoadedExecutable> executable) {
  auto result = std::make_unique<PJRT_LoadedExecutable>();
  absl::StatusOr<std::shared_ptr<const ProgramFacts>> facts = Examine(*executable->GetExecutable());
  if (!facts.ok()) return facts.status();
  result->client = client;
  result->facts = *std::move(facts);
  result->portable = executable->num_replicas() == 1 && executable->num_partitions() == 1;
  const bool small = IsSmall(*executable);
  const bool waits = WaitsForOthers(*executable);
  result->spans = executable->device_assignment().num_elements() > static_cast<int64_t>(executable->addressable_devices().size());
  result->run_inline = small && !waits && LoopsEndSoon(*executable);
  result->take_turns = small && waits && !result->spans && CanTakeTurns(*executable);
  for (xla::PjRtDevice* device : executable->addressable_devices()) {
    result->addressable_devices.push_back(client->device_of.at(device));
  }
  absl::MutexLock lock(&result->mu);
  result->executable = std::move(executable);
  return result.release();
}

void FillCompileEntries(PJRT_Api* api) {
  api->PJRT_Client_Compile = CompileForClient;
  api->PJRT_Compile = CompileAheadOfTime;
  api->PJRT_Executable_DeserializeAndLoad = Deserialize;
}

}  // namespace pw::pjrt_cpu
