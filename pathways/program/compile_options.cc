#include "pathways/program/compile_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
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
  return absl::PermissionDeniedError(absl::StrCat(
      "the program sets the XLA option ", option, ", which ", reason,
      ". Clients of this cluster cannot set it. Its operator can, with XLA_FLAGS in the environment of the workers"));
}

absl::Status DeniedFile(absl::string_view option) {
  return Denied(option, "names files of the hosts, or arguments of other programs");
}

// Options with a text that XLA interprets itself: names of passes, regular expressions that choose what is dumped, enumerators.
// The text of any other option might name a file. A new option of XLA counts among those until it is added here.
constexpr std::pair<absl::string_view, int> kHarmlessTexts[] = {
    {"xla_disable_hlo_passes", 30},
    {"xla_step_marker_location", 108},
    {"xla_dump_hlo_module_re", 110},
    {"xla_dump_hlo_pass_re", 111},
    {"xla_enable_hlo_passes_only", 124},
    {"xla_dump_hlo_pipeline_re", 154},
    {"xla_gpu_shape_checks", 170},
    {"xla_partitioning_algorithm", 187},
    {"xla_gpu_enable_command_buffer", 258},
    {"xla_gpu_enable_custom_fusions_re", 264},
    {"xla_gpu_disable_async_collectives", 289},
    {"xla_gpu_enable_while_loop_unrolling", 294},
    {"xla_gpu_override_gemm_autotuner", 295},
    {"legacy_command_buffer_custom_call_targets", 314},
    {"xla_cpu_max_isa", 333},
    {"xla_gpu_analytical_latency_estimator_options", 357},
    {"xla_cpu_experimental_ynn_fusion_type", 422},
    {"xla_dump_emitter_re", 433},
};

bool IsHarmlessText(absl::string_view name) {
  return std::any_of(std::begin(kHarmlessTexts), std::end(kHarmlessTexts),
                     [&](const auto& known) { return known.first == name; });
}

bool IsHarmlessText(int number) {
  return std::any_of(std::begin(kHarmlessTexts), std::end(kHarmlessTexts),
                     [&](const auto& known) { return known.second == number; });
}

// Returns whether XLA would take the text for a number or a bool.
bool IsNumber(absl::string_view text) {
  double number = 0;
  bool is_bool = false;
  return absl::SimpleAtod(text, &number) || absl::SimpleAtob(text, &is_bool);
}

// Options that end the whole process, with the programs of all clients, where XLA would otherwise report an error or go on.
constexpr char kNcclTimeout[] = "xla_gpu_nccl_termination_timeout_seconds",
               kStuckTimeout[] = "xla_gpu_executable_terminate_timeout_seconds";
constexpr int kStuckSeconds = 30;  // XLA's default
constexpr absl::string_view kEndsProcess[] = {"xla_gpu_crash_on_verification_failures", "xla_gpu_strict_conv_algorithm_picker",
                                              "xla_gpu_nccl_terminate_on_error", kNcclTimeout, kStuckTimeout};

// Refuses extra options that name files, and those without the prefix xla_: XLA passes them to LLVM, where some name files.
absl::Status CheckExtraOption(absl::string_view name, absl::string_view value) {
  const std::string option = absl::StrCat(kExtraOptions, " (", name, ")");
  if (!absl::StartsWith(name, "xla_")) return Denied(option, "is passed to LLVM");
  return absl::StrContains(value, '/') ? DeniedFile(option) : absl::OkStatus();
}

// Clears the texts that xla.DebugOptions declares here: they name files. jax sends them with every program if XLA_FLAGS in the
// client's environment names them. They are files of the client's machine. Returns whether there were any.
bool DropFilesOfClient(xla::DebugOptions& options) {
  const auto& reflection = *options.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(options, &fields);
  bool dropped = false;
  for (const FieldDescriptor* field : fields) {
    if (field->type() != FieldDescriptor::TYPE_STRING) continue;
    if (!field->is_repeated() && reflection.GetString(options, field).empty()) continue;
    if (field->number() == xla::DebugOptions::kXlaGpuCudaDataDirFieldNumber) {
      if (options.xla_gpu_cuda_data_dir() == kCudaFolder) continue;
      options.set_xla_gpu_cuda_data_dir(kCudaFolder);
    } else {
      reflection.ClearField(&options, field);
    }
    dropped = true;
  }
  return dropped;
}

// Drops texts that are not declared, unless they are known to be harmless. Returns whether there were any. Packed numbers have
// the same wire type, and stay.
bool DropUnknownTexts(xla::DebugOptions& options) {
  auto& unknown = *options.GetReflection()->MutableUnknownFields(&options);
  bool dropped = false;
  for (int i = unknown.field_count() - 1; i >= 0; --i) {
    const auto& field = unknown.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    const std::string& text = field.length_delimited();
    const bool is_text =
        std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_isprint(c) && !absl::ascii_isspace(c); });
    if (!is_text || IsNumber(text) || IsHarmlessText(field.number())) continue;
    unknown.DeleteSubrange(i, 1);
    dropped = true;
  }
  return dropped;
}

// Gives options that end the process the values of XLA's defaults. Returns whether any had another.
bool DropEndsOfProcess(xla::DebugOptions& options) {
  bool dropped = options.xla_gpu_crash_on_verification_failures() || options.xla_gpu_strict_conv_algorithm_picker() ||
                 options.xla_gpu_nccl_terminate_on_error();
  options.clear_xla_gpu_crash_on_verification_failures();
  options.clear_xla_gpu_strict_conv_algorithm_picker();
  options.clear_xla_gpu_nccl_terminate_on_error();
  if (options.xla_gpu_nccl_termination_timeout_seconds() > 0) {
    options.set_xla_gpu_nccl_termination_timeout_seconds(-1);
    dropped = true;
  }
  if (options.has_xla_gpu_executable_terminate_timeout_seconds() &&
      options.xla_gpu_executable_terminate_timeout_seconds() < kStuckSeconds) {
    options.set_xla_gpu_executable_terminate_timeout_seconds(kStuckSeconds);
    dropped = true;
  }
  return dropped;
}

absl::Status CheckOverride(const std::string& name, const xla::OptionOverrideProto& value) {
  const std::string& text = value.string_field();
  const FieldDescriptor* field = xla::DebugOptions::descriptor()->FindFieldByName(name);
  const bool names_file = field != nullptr && field->type() == FieldDescriptor::TYPE_STRING;
  if (names_file && value.has_string_field() && text.empty()) return absl::OkStatus();
  if (names_file) return DeniedFile(name);
  if (std::find(std::begin(kEndsProcess), std::end(kEndsProcess), name) != std::end(kEndsProcess))
    return Denied(name, "can end the process in which everybody's programs run");
  if (name == kExtraOptions) {
    for (absl::string_view extra : absl::StrSplit(text, ',', absl::SkipWhitespace()))
      PW_RETURN_IF_ERROR(CheckExtraOption(extra, extra));
    return absl::OkStatus();
  }
  if (text.empty() || IsNumber(text) || IsHarmlessText(name)) return absl::OkStatus();
  return Denied(name, "has a text, and is not known to be harmless: it might name files of the hosts");
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
  bool dropped = false;
  if (parsed.executable_build_options().has_debug_options()) {
    xla::DebugOptions& debug = *parsed.mutable_executable_build_options()->mutable_debug_options();
    for (const auto& [name, value] : debug.xla_backend_extra_options()) PW_RETURN_IF_ERROR(CheckExtraOption(name, value));
    dropped |= DropFilesOfClient(debug);
    dropped |= DropUnknownTexts(debug);
    dropped |= DropEndsOfProcess(debug);
  }
  for (const auto& [name, value] : parsed.env_option_overrides()) PW_RETURN_IF_ERROR(CheckOverride(name, value));
  return dropped ? CanonicalCompileOptions(std::move(parsed)) : std::string(options);
}

}  // namespace pw::program
