// Executables: their properties.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "plugins/pathways_pjrt/convert.h"
#include "plugins/pathways_pjrt/handles.h"
#include "xla/executable_metadata.pb.h"

struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};

ShardingLists::ShardingLists(const std::vector<pw::session::ValueInfo>& values) {
  for (const pw::session::ValueInfo& value : values) {
    if (value.op_sharding.empty()) {
      texts.clear();
      sizes.clear();
      return;
    }
    texts.push_back(value.op_sharding.data());
    sizes.push_back(value.op_sharding.size());
  }
}

Program::Program(pw::client::Client* session, pw::client::Executable executable, int replicas, int partitions,
                 ProgramSource source, std::optional<Port> port)
    : session(session),
      info(std::move(executable)),
      num_replicas(replicas),
      num_partitions(partitions),
      source(std::move(source)),
      port(std::move(port)),
      parameter_shardings(info->parameters),
      output_shardings(info->outputs) {
  for (const pw::session::ValueInfo& value : info->outputs) {
    const auto shape = std::make_shared<const Shape>(
        Shape{value.dtype, value.shard_dims, pw::pathways_pjrt::OrderOf(value.layout, value.shard_dims.size())});
    output_shapes.push_back(shape);
    output_types.push_back(pw::pathways_pjrt::ToBufferType(value.dtype));
    output_dims.insert(output_dims.end(), value.shard_dims.begin(), value.shard_dims.end());
    output_ranks.push_back(value.shard_dims.size());
    output_kind_texts.push_back(value.memory_kind.empty() ? "device" : value.memory_kind);
    output_layout_texts.push_back({pw::pathways_pjrt::TextOf(shape->minor_to_major)});
    output_layouts.push_back(&output_layout_texts.back());
  }
  for (const std::string& kind : output_kind_texts) {
    output_kinds.push_back(kind.data());
    output_kind_sizes.push_back(kind.size());
  }
}

namespace pw::pathways_pjrt {
namespace {

PJRT_Error* GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  std::shared_ptr<const Program> program = args->loaded_executable->get();
  if (program == nullptr) return NewError(absl::FailedPreconditionError("the executable was deleted"));
  args->executable = new PJRT_Executable;
  args->executable->program = std::move(program);
  return nullptr;
}

PJRT_Error* DeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args* args) {
  const std::shared_ptr<const Program> program = args->executable->get();
  if (program == nullptr) return NewError(absl::FailedPreconditionError("the executable was deleted"));
  xla::DeviceAssignmentProto proto;
  proto.set_replica_count(program->num_replicas);
  proto.set_computation_count(program->num_partitions);
  for (int p = 0; p < program->num_partitions; ++p) {
    auto& partition = *proto.add_computation_devices();
    for (int r = 0; r < program->num_replicas; ++r)
      partition.add_replica_device_ids(program->info->devices[r * program->num_partitions + p].v);
  }
  auto* out = new PJRT_DeviceAssignmentSerialized{proto.SerializeAsString()};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_device_assignment = out;
  args->serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized* assignment) { delete assignment; };
  return nullptr;
}

PJRT_Error* CostAnalysis(PJRT_Executable_GetCostAnalysis_Args* args) {
  PJRT_Executable* executable = args->executable;
  std::lock_guard<std::mutex> lock(executable->mu);
  if (executable->costs == nullptr) {
    const Program& program = *executable->program;
    PW_ENTRY_ASSIGN_OR_RETURN(const session::CostAnalysis analysis, Await(program.session->Costs(program.info)));
    executable->costs = std::make_unique<c_table::NamedValues>();
    for (const auto& [name, number] : analysis.numbers) executable->costs->Add(name, static_cast<float>(number));
  }
  args->properties = executable->costs->data();
  args->num_properties = executable->costs->size();
  return nullptr;
}

// The host calls it twice: for the size, then for the bytes.
PJRT_Error* OptimizedProgram(PJRT_Executable_OptimizedProgram_Args* args) {
  static constexpr absl::string_view kFormat = "hlo_with_config";
  PJRT_Executable* executable = args->executable;
  const Program& program = *executable->program;
  if (program.port.has_value()) return NewError(NotYet("the optimized form of a program of many nodes"));
  std::lock_guard<std::mutex> lock(executable->mu);
  if (!executable->module.has_value()) {
    PW_ENTRY_ASSIGN_OR_RETURN(executable->module, Await(program.session->Module(program.info)));
  }
  const std::string& bytes = *executable->module;
  SetText(kFormat, &args->program->format, &args->program->format_size);
  if (args->program->code == nullptr) {
    args->program->code_size = bytes.size();
    return nullptr;
  }
  if (args->program->code_size < bytes.size())
    return NewError(absl::InvalidArgumentError(
        absl::StrCat("the optimized program has ", bytes.size(), " bytes, the host's buffer ", args->program->code_size)));
  std::copy(bytes.begin(), bytes.end(), args->program->code);
  return nullptr;
}

PJRT_Error* MemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  const std::string& bytes = args->executable->program->info->memory_stats;
  xla::CompiledMemoryStatsProto stats;
  if (bytes.empty() || !stats.ParseFromString(bytes))
    return NewError(absl::UnimplementedError("the cluster's device runtime gives no memory statistics of programs"));
  args->generated_code_size_in_bytes = stats.generated_code_size_in_bytes();
  args->argument_size_in_bytes = stats.argument_size_in_bytes();
  args->output_size_in_bytes = stats.output_size_in_bytes();
  args->alias_size_in_bytes = stats.alias_size_in_bytes();
  args->temp_size_in_bytes = stats.temp_size_in_bytes();
  args->host_generated_code_size_in_bytes = stats.host_generated_code_size_in_bytes();
  args->host_argument_size_in_bytes = stats.host_argument_size_in_bytes();
  args->host_output_size_in_bytes = stats.host_output_size_in_bytes();
  args->host_alias_size_in_bytes = stats.host_alias_size_in_bytes();
  args->host_temp_size_in_bytes = stats.host_temp_size_in_bytes();
  if (PW_HAS_FIELD(args, peak_memory_in_bytes)) args->peak_memory_in_bytes = stats.peak_memory_in_bytes();
  if (PW_HAS_FIELD(args, total_size_in_bytes)) args->total_size_in_bytes = stats.total_size_in_bytes();
  return nullptr;
}

void FillOutputs(PJRT_Api* api) {
  api->PJRT_Executable_NumOutputs = [](PJRT_Executable_NumOutputs_Args* args) -> PJRT_Error* {
    args->num_outputs = args->executable->program->output_types.size();
    return nullptr;
  };
  api->PJRT_Executable_OutputElementTypes = [](PJRT_Executable_OutputElementTypes_Args* args) -> PJRT_Error* {
    const Program& program = *args->executable->program;
    args->output_types = const_cast<PJRT_Buffer_Type*>(program.output_types.data());
    args->num_output_types = program.output_types.size();
    return nullptr;
  };
  api->PJRT_Executable_OutputDimensions = [](PJRT_Executable_OutputDimensions_Args* args) -> PJRT_Error* {
    const Program& program = *args->executable->program;
    args->num_outputs = program.output_ranks.size();
    args->dims = program.output_dims.data();
    args->dim_sizes = program.output_ranks.data();
    return nullptr;
  };
  api->PJRT_Executable_OutputMemoryKinds = [](PJRT_Executable_OutputMemoryKinds_Args* args) -> PJRT_Error* {
    const Program& program = *args->executable->program;
    args->num_outputs = program.output_kinds.size();
    args->memory_kinds = program.output_kinds.data();
    args->memory_kind_sizes = program.output_kind_sizes.data();
    return nullptr;
  };
}

void FillProperties(PJRT_Api* api) {
  api->PJRT_Executable_Name = [](PJRT_Executable_Name_Args* args) -> PJRT_Error* {
    SetText(args->executable->program->info->name, &args->executable_name, &args->executable_name_size);
    return nullptr;
  };
  api->PJRT_Executable_NumReplicas = [](PJRT_Executable_NumReplicas_Args* args) -> PJRT_Error* {
    args->num_replicas = args->executable->program->num_replicas;
    return nullptr;
  };
  api->PJRT_Executable_NumPartitions = [](PJRT_Executable_NumPartitions_Args* args) -> PJRT_Error* {
    args->num_partitions = args->executable->program->num_partitions;
    return nullptr;
  };
  api->PJRT_Executable_SizeOfGeneratedCodeInBytes = [](PJRT_Executable_SizeOfGeneratedCodeInBytes_Args* args) -> PJRT_Error* {
    args->size_in_bytes = args->executable->program->info->code_bytes;
    return nullptr;
  };
  api->PJRT_Executable_Fingerprint = [](PJRT_Executable_Fingerprint_Args* args) -> PJRT_Error* {
    SetText(args->executable->program->info->fingerprint, &args->executable_fingerprint, &args->executable_fingerprint_size);
    return nullptr;
  };
  api->PJRT_Executable_GetCostAnalysis = CostAnalysis;
  api->PJRT_Executable_OptimizedProgram = OptimizedProgram;
  api->PJRT_Executable_GetCompiledMemoryStats = MemoryStats;
}

void FillLoaded(PJRT_Api* api) {
  api->PJRT_LoadedExecutable_Destroy = [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  api->PJRT_LoadedExecutable_AddressableDevices = [](PJRT_LoadedExecutable_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->executable->devices.data();
    args->num_addressable_devices = args->executable->devices.size();
    return nullptr;
  };
  api->PJRT_LoadedExecutable_Delete = [](PJRT_LoadedExecutable_Delete_Args* args) -> PJRT_Error* {
    std::shared_ptr<const Program> dropped;  // outside the lock
    std::lock_guard<std::mutex> lock(args->executable->mu);
    std::swap(dropped, args->executable->program);
    return nullptr;
  };
  api->PJRT_LoadedExecutable_IsDeleted = [](PJRT_LoadedExecutable_IsDeleted_Args* args) -> PJRT_Error* {
    args->is_deleted = args->executable->get() == nullptr;
    return nullptr;
  };
}

}  // namespace

void FillExecutableEntries(PJRT_Api* api) {
  FillOutputs(api);
  FillProperties(api);
  FillLoaded(api);
  api->PJRT_LoadedExecutable_GetExecutable = GetExecutable;
  api->PJRT_LoadedExecutable_GetDeviceAssignment = DeviceAssignment;
  api->PJRT_Executable_Destroy = [](PJRT_Executable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
}

}  // namespace pw::pathways_pjrt
