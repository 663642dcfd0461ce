#include "pathways/device/pjrt/program_info.h"

#include <utility>

#include "pathways/base/sort_and_merge.h"
#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/types.h"
#include "xla/executable_metadata.pb.h"
#include "xla/hlo.pb.h"

namespace pw::device::pjrt {
namespace {
constexpr int kHostMemorySpace = 5;  // xla::Layout
constexpr char kHostMemoryKind[] = "pinned_host";

ValueInfo ToValue(const xla::ShapeProto& shape, const std::string& default_kind) {
  ValueInfo value;
  value.dtype = buffers::DTypeFromNumber(shape.element_type()).value_or(DType::kInvalid);
  value.dims.assign(shape.dimensions().begin(), shape.dimensions().end());
  if (shape.has_layout()) value.layout = shape.layout().SerializeAsString();
  value.memory_kind = shape.layout().memory_space() == kHostMemorySpace ? kHostMemoryKind : default_kind;
  return value;
}

// The message for "replicated" has only default fields and serializes to nothing, but readers of op_sharding take an empty string for
// "unknown". So this writes the type explicitly.
std::string Serialize(const xla::OpSharding& sharding) {
  const std::string bytes = sharding.SerializeAsString();
  return bytes.empty() ? std::string("\x08\x00", 2) : bytes;
}

void ReadOutputShardings(const xla::OpSharding& sharding, std::vector<ValueInfo>* outputs) {
  if (sharding.type() != xla::OpSharding::TUPLE) {
    if (outputs->size() == 1) outputs->front().op_sharding = Serialize(sharding);
    return;
  }
  for (size_t i = 0; i < outputs->size() && i < static_cast<size_t>(sharding.tuple_shardings_size()); ++i) {
    (*outputs)[i].op_sharding = Serialize(sharding.tuple_shardings(static_cast<int>(i)));
  }
}

// For platforms that do not return their optimized program: reads only the outputs.
absl::Status ReadOutputs(const Api& api, PJRT_Executable* executable, ProgramInfo* info) {
  PW_PJRT_ARGS(types, PJRT_Executable_OutputElementTypes_Args);
  types.executable = executable;
  PW_RETURN_IF_ERROR(api.Call(&PJRT_Api::PJRT_Executable_OutputElementTypes, &types));
  PW_PJRT_ARGS(dims, PJRT_Executable_OutputDimensions_Args);
  dims.executable = executable;
  PW_RETURN_IF_ERROR(api.Call(&PJRT_Api::PJRT_Executable_OutputDimensions, &dims));
  if (types.num_output_types != dims.num_outputs)
    return absl::InternalError("the plugin disagrees with itself about the number of outputs");
  const int64_t* next = dims.dims;
  info->outputs.resize(dims.num_outputs);
  for (size_t i = 0; i < dims.num_outputs; ++i) {
    ValueInfo& value = info->outputs[i];
    value.dtype = FromPjrt(types.output_types[i]);
    value.dims.assign(next, next + dims.dim_sizes[i]);
    next += dims.dim_sizes[i];
  }
  return absl::OkStatus();
}

void ReadMemoryKinds(const Api& api, PJRT_Executable* executable, ProgramInfo* info) {
  PW_PJRT_ARGS(args, PJRT_Executable_OutputMemoryKinds_Args);
  args.executable = executable;
  if (!api.Call(&PJRT_Api::PJRT_Executable_OutputMemoryKinds, &args).ok() || args.num_outputs != info->outputs.size()) return;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    if (args.memory_kind_sizes[i] > 0) info->outputs[i].memory_kind.assign(args.memory_kinds[i], args.memory_kind_sizes[i]);
  }
}

std::string ReadMemoryStats(const Api& api, PJRT_Executable* executable) {
  PW_PJRT_ARGS(args, PJRT_Executable_GetCompiledMemoryStats_Args);
  args.executable = executable;
  if (!api.Call(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, &args).ok()) return "";
  xla::CompiledMemoryStatsProto stats;
  stats.set_generated_code_size_in_bytes(args.generated_code_size_in_bytes);
  stats.set_argument_size_in_bytes(args.argument_size_in_bytes);
  stats.set_output_size_in_bytes(args.output_size_in_bytes);
  stats.set_alias_size_in_bytes(args.alias_size_in_bytes);
  stats.set_temp_size_in_bytes(args.temp_size_in_bytes);
  stats.set_host_generated_code_size_in_bytes(args.host_generated_code_size_in_bytes);
  stats.set_host_argument_size_in_bytes(args.host_argument_size_in_bytes);
  stats.set_host_output_size_in_bytes(args.host_output_size_in_bytes);
  stats.set_host_alias_size_in_bytes(args.host_alias_size_in_bytes);
  stats.set_host_temp_size_in_bytes(args.host_temp_size_in_bytes);
  stats.set_peak_memory_in_bytes(args.peak_memory_in_bytes);
  stats.set_total_size_in_bytes(args.total_size_in_bytes);
  return stats.SerializeAsString();
}

// Returns the local ordinal of each position. The caller chose the assignment; a plugin that orders the devices differently would mix up
// shards.
absl::StatusOr<std::vector<int>> ReadDevices(const Client& client, PJRT_LoadedExecutable* loaded) {
  PW_PJRT_ARGS(args, PJRT_LoadedExecutable_AddressableDevices_Args);
  args.executable = loaded;
  PW_RETURN_IF_ERROR(client.api().Call(&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices, &args));
  std::vector<int> devices;
  for (size_t i = 0; i < args.num_addressable_devices; ++i) devices.push_back(client.OrdinalOf(args.addressable_devices[i]));
  return devices;
}

}  // namespace

absl::Status ReadModule(const std::string& serialized, const std::string& default_kind, ProgramInfo* info) {
  xla::HloModuleProto module;
  if (!module.ParseFromString(serialized))
    return absl::InvalidArgumentError("the optimized program is not a serialized xla.HloModuleProto");
  const xla::ProgramShapeProto& shape = module.host_program_shape();
  info->parameters.clear();
  for (const xla::ShapeProto& parameter : shape.parameters()) info->parameters.push_back(ToValue(parameter, default_kind));
  info->outputs.clear();
  if (shape.result().element_type() == xla::TUPLE) {
    for (const xla::ShapeProto& result : shape.result().tuple_shapes()) info->outputs.push_back(ToValue(result, default_kind));
  } else {
    info->outputs.push_back(ToValue(shape.result(), default_kind));
  }
  const int shardings = module.spmd_parameters_shardings_size();
  for (int i = 0; i < shardings && i < static_cast<int>(info->parameters.size()); ++i) {
    info->parameters[i].op_sharding = Serialize(module.spmd_parameters_shardings(i));
  }
  if (module.has_spmd_output_sharding()) ReadOutputShardings(module.spmd_output_sharding(), &info->outputs);
  info->donated_inputs.clear();
  for (const auto& entry : module.input_output_alias().entries()) {
    const int64_t parameter = entry.parameter_number();
    if (parameter >= 0 && parameter < static_cast<int64_t>(info->parameters.size()))
      info->donated_inputs.push_back(static_cast<int32_t>(parameter));
  }
  SortAndMerge(info->donated_inputs);
  return absl::OkStatus();
}

absl::StatusOr<std::string> OptimizedModuleWithConfig(const Api& api, PJRT_Executable* executable) {
  PW_PJRT_ARGS(program, PJRT_Program);
  PW_PJRT_ARGS(args, PJRT_Executable_OptimizedProgram_Args);
  args.executable = executable;
  args.program = &program;
  PW_RETURN_IF_ERROR(api.Call(&PJRT_Api::PJRT_Executable_OptimizedProgram, &args));
  std::string code(program.code_size, '\0');
  program.code = code.data();
  PW_RETURN_IF_ERROR(api.Call(&PJRT_Api::PJRT_Executable_OptimizedProgram, &args));
  const absl::string_view format(program.format, program.format_size);
  if (format == "hlo_with_config") return code;
  if (format != "hlo") return absl::UnimplementedError(absl::StrCat("the optimized program has the format '", format, "'"));
  xla::HloModuleProtoWithConfig without;
  if (!without.mutable_hlo_module()->ParseFromString(code))
    return absl::InvalidArgumentError("the optimized program is not a serialized xla.HloModuleProto");
  return without.SerializeAsString();
}

absl::StatusOr<std::string> OptimizedModule(const Api& api, PJRT_Executable* executable) {
  PW_ASSIGN_OR_RETURN(const std::string bytes, OptimizedModuleWithConfig(api, executable));
  xla::HloModuleProtoWithConfig with_config;
  if (!with_config.ParseFromString(bytes))
    return absl::InvalidArgumentError("the optimized program is not a serialized xla.HloModuleProtoWithConfig");
  return with_config.hlo_module().SerializeAsString();
}

absl::StatusOr<ProgramInfo> ReadProgramInfo(const Client& client, PJRT_LoadedExecutable* loaded, PJRT_Executable* executable) {
  const Api& api = client.api();
  ProgramInfo info;
  PW_ASSIGN_OR_RETURN(info.devices, ReadDevices(client, loaded));
  PW_PJRT_ARGS(name, PJRT_Executable_Name_Args);
  name.executable = executable;
  if (api.Call(&PJRT_Api::PJRT_Executable_Name, &name).ok()) info.name.assign(name.executable_name, name.executable_name_size);
  PW_PJRT_ARGS(fingerprint, PJRT_Executable_Fingerprint_Args);
  fingerprint.executable = executable;
  if (api.Call(&PJRT_Api::PJRT_Executable_Fingerprint, &fingerprint).ok()) {
    info.fingerprint.assign(fingerprint.executable_fingerprint, fingerprint.executable_fingerprint_size);
  }
  PW_PJRT_ARGS(code, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args);
  code.executable = executable;
  if (api.Call(&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes, &code).ok()) info.code_bytes = code.size_in_bytes;
  info.memory_stats = ReadMemoryStats(api, executable);

  const std::string& default_kind = client.devices().front().memories.front().kind;
  absl::StatusOr<std::string> module = OptimizedModule(api, executable);
  if (module.ok()) {
    PW_RETURN_IF_ERROR(ReadModule(*module, default_kind, &info));
  } else {
    PW_RETURN_IF_ERROR(ReadOutputs(api, executable, &info));
  }
  ReadMemoryKinds(api, executable, &info);
  return info;
}

}  // namespace pw::device::pjrt
