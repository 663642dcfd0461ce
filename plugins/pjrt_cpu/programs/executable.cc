// Properties of executables.
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "plugins/pjrt_cpu/handles.h"
#include "plugins/pjrt_cpu/programs/ring_costs.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/service/computation_placer.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_cost_analysis.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};

namespace pw::pjrt_cpu {
namespace {

// Returns owned bytes with a deleter to the host.
template <typename Holder>
void Return(std::string bytes, const char** data, size_t* size, Holder** holder, void (**deleter)(Holder*)) {
  *holder = new Holder{std::move(bytes)};
  *data = (*holder)->bytes.data();
  *size = (*holder)->bytes.size();
  *deleter = [](Holder* h) { delete h; };
}

PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  std::shared_ptr<xla::PjRtLoadedExecutable> loaded = args->loaded_executable->get();
  if (loaded == nullptr) return MakeError(absl::FailedPreconditionError("the executable was deleted"));
  auto result = std::make_unique<PJRT_Executable>();
  result->executable = std::shared_ptr<xla::PjRtExecutable>(loaded, loaded->GetExecutable());
  result->loaded = std::move(loaded);
  result->facts = args->loaded_executable->facts;
  args->executable = result.release();
  return nullptr;
}

absl::StatusOr<std::string> OptimizedHlo(const xla::PjRtExecutable& executable) {
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  if (!modules.ok()) return modules.status();
  if (modules->size() != 1) {
    return absl::UnimplementedError(absl::StrCat("the executable has ", modules->size(), " HLO modules; one is supported"));
  }
  xla::HloModuleProtoWithConfig proto;
  modules->front()->ToProtoWithConfig(&proto);
  return proto.SerializeAsString();
}

PJRT_Error* OptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args) {
  static constexpr absl::string_view kFormat = "hlo_with_config";
  PJRT_Executable* executable = args->executable;
  absl::MutexLock lock(&executable->mu);
  if (!executable->optimized_program.has_value()) {
    PW_ASSIGN_OR_RETURN(executable->optimized_program, OptimizedHlo(*executable->executable));
  }
  const std::string& bytes = *executable->optimized_program;
  args->program->format = kFormat.data();
  args->program->format_size = kFormat.size();
  if (args->program->code == nullptr) {
    args->program->code_size = bytes.size();
    return nullptr;
  }
  if (args->program->code_size < bytes.size()) {
    return MakeError(absl::InvalidArgumentError(
        absl::StrCat("the optimized program needs ", bytes.size(), " bytes, the buffer holds ", args->program->code_size)));
  }
  std::memcpy(args->program->code, bytes.data(), bytes.size());
  return nullptr;
}

absl::StatusOr<absl::flat_hash_map<std::string, xla::PjRtValueType>> Costs(const PJRT_Executable& executable) {
  if (executable.loaded != nullptr) return executable.loaded->GetCostAnalysis();
  xla::HloCostAnalysis analysis{xla::HloCostAnalysis::Options()};
  return xla::PjRtExecutableUtil::RunHloCostAnalysis(*executable.executable, &analysis);
}

// Adds the costs of collectives to XLA's own costs.
void AddRings(const xla::PjRtExecutable& executable, NamedValues& values) {
  absl::StatusOr<std::vector<std::shared_ptr<xla::HloModule>>> modules = executable.GetHloModules();
  RingCosts sum;
  for (const auto& module : modules.ok() ? *modules : std::vector<std::shared_ptr<xla::HloModule>>()) {
    const RingCosts one = CountRings(*module);
    sum = {sum.bytes + one.bytes, sum.steps + one.steps};
  }
  if (sum.steps == 0) return;
  values.Add("collective bytes", sum.bytes);
  values.Add("collective steps", sum.steps);
}

PJRT_Error* CostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args) {
  PJRT_Executable* executable = args->executable;
  absl::MutexLock lock(&executable->mu);
  if (executable->costs == nullptr) {
    PW_ASSIGN_OR_RETURN(auto costs, Costs(*executable));
    auto values = std::make_unique<NamedValues>();
    for (auto& [name, value] : costs) values->Add(name, std::move(value));
    AddRings(*executable->executable, *values);
    executable->costs = std::move(values);
  }
  args->properties = executable->costs->data();
  args->num_properties = executable->costs->size();
  return nullptr;
}

PJRT_Error* MemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::CompiledMemoryStats stats, args->executable->executable->GetCompiledMemoryStats());
  args->generated_code_size_in_bytes = stats.generated_code_size_in_bytes;
  args->argument_size_in_bytes = stats.argument_size_in_bytes;
  args->output_size_in_bytes = stats.output_size_in_bytes;
  args->alias_size_in_bytes = stats.alias_size_in_bytes;
  args->temp_size_in_bytes = stats.temp_size_in_bytes;
  args->host_generated_code_size_in_bytes = stats.host_generated_code_size_in_bytes;
  args->host_argument_size_in_bytes = stats.host_argument_size_in_bytes;
  args->host_output_size_in_bytes = stats.host_output_size_in_bytes;
  args->host_alias_size_in_bytes = stats.host_alias_size_in_bytes;
  args->host_temp_size_in_bytes = stats.host_temp_size_in_bytes;
  if (PW_HAS_FIELD(args, peak_memory_in_bytes)) args->peak_memory_in_bytes = stats.peak_memory_in_bytes;
  if (PW_HAS_FIELD(args, total_size_in_bytes)) args->total_size_in_bytes = stats.total_size_in_bytes;
  return nullptr;
}

PJRT_Error* Serialize(PJRT_Executable_Serialize_Args* args) {
  PW_ASSIGN_OR_RETURN(std::string bytes, args->executable->executable->SerializeExecutable());
  Return(std::move(bytes), &args->serialized_bytes, &args->serialized_bytes_size, &args->serialized_executable,
         &args->serialized_executable_deleter);
  return nullptr;
}

PJRT_Error* CompileOptions(PJRT_Executable_GetCompileOptions_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::CompileOptions options, args->executable->executable->GetCompileOptions());
  PW_ASSIGN_OR_RETURN(const xla::CompileOptionsProto proto, options.ToProto());
  Return(proto.SerializeAsString(), &args->serialized_bytes, &args->serialized_bytes_size, &args->serialized_compile_options,
         &args->serialized_compile_options_deleter);
  return nullptr;
}

PJRT_Error* DeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) {
  std::shared_ptr<xla::PjRtLoadedExecutable> loaded = args->executable->get();
  if (loaded == nullptr) return MakeError(absl::FailedPreconditionError("the executable was deleted"));
  xla::DeviceAssignmentProto proto;
  loaded->device_assignment().Serialize(&proto);
  Return(proto.SerializeAsString(), &args->serialized_bytes, &args->serialized_bytes_size, &args->serialized_device_assignment,
         &args->serialized_device_assignment_deleter);
  return nullptr;
}

void FillOutputEntries(PJRT_Api* api) {
  api->PJRT_Executable_NumOutputs = [](PJRT_Executable_NumOutputs_Args* args) -> PJRT_Error* {
    args->num_outputs = args->executable->facts->output_types.size();
    return nullptr;
  };
  api->PJRT_Executable_OutputElementTypes = [](PJRT_Executable_OutputElementTypes_Args* args) -> PJRT_Error* {
    args->output_types = const_cast<PJRT_Buffer_Type*>(args->executable->facts->output_types.data());
    args->num_output_types = args->executable->facts->output_types.size();
    return nullptr;
  };
  api->PJRT_Executable_OutputDimensions = [](PJRT_Executable_OutputDimensions_Args* args) -> PJRT_Error* {
    args->num_outputs = args->executable->facts->output_ranks.size();
    args->dims = args->executable->facts->output_dims.data();
    args->dim_sizes = args->executable->facts->output_ranks.data();
    return nullptr;
  };
  api->PJRT_Executable_OutputMemoryKinds = [](PJRT_Executable_OutputMemoryKinds_Args* args) -> PJRT_Error* {
    args->num_outputs = args->executable->facts->output_kinds.size();
    args->memory_kinds = args->executable->facts->output_kinds.data();
    args->memory_kind_sizes = args->executable->facts->output_kind_sizes.data();
    return nullptr;
  };
}

void FillLoadedEntries(PJRT_Api* api) {
  api->PJRT_LoadedExecutable_Destroy = [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  api->PJRT_LoadedExecutable_GetExecutable = GetExecutable;
  api->PJRT_LoadedExecutable_AddressableDevices = [](PJRT_LoadedExecutable_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->executable->addressable_devices.data();
    args->num_addressable_devices = args->executable->addressable_devices.size();
    return nullptr;
  };
  api->PJRT_LoadedExecutable_Delete = [](PJRT_LoadedExecutable_Delete_Args* args) -> PJRT_Error* {
    std::shared_ptr<xla::PjRtLoadedExecutable> dropped;  // freed outside the lock
    absl::MutexLock lock(&args->executable->mu);
    dropped.swap(args->executable->executable);
    return nullptr;
  };
  api->PJRT_LoadedExecutable_IsDeleted = [](PJRT_LoadedExecutable_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->executable->get() == nullptr;
    return nullptr;
  };
  api->PJRT_LoadedExecutable_Fingerprint = [](PJRT_LoadedExecutable_Fingerprint_Args* args) -> PJRT_Error* {
    args->executable_fingerprint = args->executable->facts->fingerprint.data();
    args->executable_fingerprint_size = args->executable->facts->fingerprint.size();
    return nullptr;
  };
  api->PJRT_LoadedExecutable_GetDeviceAssignment = DeviceAssignment;
}

}  // namespace

void FillExecutableEntries(PJRT_Api* api) {
  FillOutputEntries(api);
  FillLoadedEntries(api);
  api->PJRT_Executable_Destroy = [](PJRT_Executable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  api->PJRT_Executable_Name = [](PJRT_Executable_Name_Args* args) -> PJRT_Error* {
    args->executable_name = args->executable->facts->name.data();
    args->executable_name_size = args->executable->facts->name.size();
    return nullptr;
  };
  api->PJRT_Executable_NumReplicas = [](PJRT_Executable_NumReplicas_Args* args) -> PJRT_Error* {
    args->num_replicas = args->executable->executable->num_replicas();
    return nullptr;
  };
  api->PJRT_Executable_NumPartitions = [](PJRT_Executable_NumPartitions_Args* args) -> PJRT_Error* {
    args->num_partitions = args->executable->executable->num_partitions();
    return nullptr;
  };
  api->PJRT_Executable_SizeOfGeneratedCodeInBytes = [](PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) -> PJRT_Error* {
    args->size_in_bytes = args->executable->executable->SizeOfGeneratedCodeInBytes();
    return nullptr;
  };
  api->PJRT_Executable_Fingerprint = [](PJRT_Executable_Fingerprint_Args* args) -> PJRT_Error* {
    args->executable_fingerprint = args->executable->facts->fingerprint.data();
    args->executable_fingerprint_size = args->executable->facts->fingerprint.size();
    return nullptr;
  };
  api->PJRT_Executable_GetCostAnalysis = CostAnalysis;
  api->PJRT_Executable_GetCompiledMemoryStats = MemoryStats;
  api->PJRT_Executable_OptimizedProgram = OptimizedProgram;
  api->PJRT_Executable_Serialize = Serialize;
  api->PJRT_Executable_GetCompileOptions = CompileOptions;
}

}  // namespace pw::pjrt_cpu
