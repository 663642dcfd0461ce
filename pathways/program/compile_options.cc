#include "pathways/program/compile_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"

namespace pw::program {
namespace {

constexpr int64_t kMaxDevices = 1 << 20;

using google::protobuf::FieldDescriptor;

constexpr char kExtraOptions[] = "xla_backend_extra_options";
// XLA's default of xla_gpu_cuda_data_dir.
constexpr char kCudaFolder[] = "./cuda_sdk_lib";

absl::Status Denied(absl::string_view option, absl::string_view reason) {
  return absl::PermissionDeniedError(
      absl::StrCat("the program sets the XLA option ", option, ", which ", reason,
                   ". Clients of this cluster cannot set it. Its operator can, with XLA_FLAGS in the environment of the workers"));
}

absl::Status DeniedFile(absl::string_view option) { return Denied(option, "names files of the hosts, or arguments of other programs"); }

// XLA takes the extra options whose names begin otherwise for arguments of LLVM, some of which name files.
absl::Status CheckExtraOption(absl::string_view name) {
  return absl::StartsWith(name, "xla_") ? absl::OkStatus() : Denied(absl::StrCat(kExtraOptions, " (", name, ")"), "is passed to LLVM");
}

bool NamesCudaFolder(const xla::DebugOptions& options) {
  return !options.xla_gpu_cuda_data_dir().empty() && options.xla_gpu_cuda_data_dir() != kCudaFolder;
}

// The texts that xla.DebugOptions declares here are those that a stranger must not set.
absl::Status CheckDebugOptions(const xla::DebugOptions& options) {
  const auto& reflection = *options.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(options, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() != FieldDescriptor::TYPE_STRING) continue;
    if (!field->is_repeated() && reflection.GetString(options, field).empty()) continue;
    if (field->number() == xla::DebugOptions::kXlaGpuCudaDataDirFieldNumber && !NamesCudaFolder(options)) continue;
    return DeniedFile(field->name());
  }
  for (const auto& [name, value] : options.xla_backend_extra_options()) PW_RETURN_IF_ERROR(CheckExtraOption(name));
  const auto& unknown = reflection.GetUnknownFields(options);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED || !absl::StrContains(field.length_delimited(), '/')) continue;
    return DeniedFile(absl::StrCat("number ", field.number(), " (new to this cluster)"));
  }
  return absl::OkStatus();
}

absl::Status CheckOverride(const std::string& name, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  const FieldDescriptor* field = xla::DebugOptions::descriptor()->FindFieldByName(name);
  const bool declared = field != nullptr && field->type() == FieldDescriptor::TYPE_STRING;
  if (declared || absl::StrContains(text, '/')) return DeniedFile(name);
  if (name != kExtraOptions) return absl::OkStatus();
  for (absl::string_view extra : absl::StrSplit(text, ',', absl::SkipWhitespace())) PW_RETURN_IF_ERROR(CheckExtraOption(extra));
  return absl::OkStatus();
}

}  // namespace

std::string CanonicalCompileOptions(xla::CompileOptionsProto options) {
  if (options.has_executable_build_options()) options.mutable_executable_build_options()->clear_device_assignment();
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  options.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::StatusOr<DeviceGrid> DevicesOf(const xla::ExecutableBuildOptionsProto& options) {
  DeviceGrid out;
  int64_t replicas = std::max<int64_t>(options.num_replicas(), 1);
  int64_t partitions = std::max<int64_t>(options.num_partitions(), 1);
  const bool assigned = options.has_device_assignment();
  const xla::DeviceAssignmentProto& assignment = options.device_assignment();
  if (assigned) {
    replicas = assignment.replica_count();
    partitions = assignment.computation_count();
  }
  if (replicas < 1 || partitions < 1 || replicas > kMaxDevices || partitions > kMaxDevices / replicas) {
    return absl::InvalidArgumentError(
        absl::StrCat("compile options ask for ", replicas, " replicas x ", partitions, " partitions"));
  }
  out.num_replicas = static_cast<int>(replicas);
  out.num_partitions = static_cast<int>(partitions);
  if (!assigned) return out;
  if (assignment.computation_devices_size() != partitions) {
    return absl::InvalidArgumentError("a device assignment does not list the devices of each partition");
  }
  out.devices.resize(replicas * partitions);
  for (int p = 0; p < partitions; ++p) {
    const auto& devices = assignment.computation_devices(p).replica_device_ids();
    if (devices.size() != replicas)
      return absl::InvalidArgumentError("a device assignment does not list a device for each replica");
    for (int r = 0; r < replicas; ++r) out.devices[r * partitions + p] = DeviceId(static_cast<int32_t>(devices[r]));
  }
  return out;
}

absl::StatusOr<std::string> OptionsOfStranger(absl::string_view options) {
  xla::CompileOptionsProto parsed;
  if (!parsed.ParseFromArray(options.data(), static_cast<int>(options.size())))
    return absl::InvalidArgumentError("the program's compile options cannot be read");
  const bool has_folder = NamesCudaFolder(parsed.executable_build_options().debug_options());
  if (has_folder) parsed.mutable_executable_build_options()->mutable_debug_options()->set_xla_gpu_cuda_data_dir(kCudaFolder);
  PW_RETURN_IF_ERROR(CheckDebugOptions(parsed.executable_build_options().debug_options()));
  for (const auto& [name, value] : parsed.env_option_overrides()) PW_RETURN_IF_ERROR(CheckOverride(name, value.string_field()));
  return has_folder ? CanonicalCompileOptions(std::move(parsed)) : std::string(options);
}

}  // namespace pw::program
