#include "pathways/program/executable.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/op_sharding.h"

namespace pw::program {
namespace {

using ::pathways::v1::Compiled;

absl::StatusOr<Value> MakeValue(const Compiled::Value& proto) {
  Value value;
  PW_ASSIGN_OR_RETURN(value.dtype, buffers::DTypeFromNumber(proto.dtype()));
  value.shard_dims.assign(proto.shard_dims().begin(), proto.shard_dims().end());
  PW_RETURN_IF_ERROR(buffers::DenseBytes(value.dtype, value.shard_dims).status());
  value.op_sharding = proto.op_sharding();
  value.layout = proto.layout();
  value.memory_kind = proto.memory_kind();
  return value;
}

// Returns the whole array whose shards have shard_dims. XLA makes all shards equal, so each dimension is the tile count times a
// shard's.
absl::StatusOr<buffers::ArraySpec> WholeArray(const Executable& executable, const Value& value) {
  buffers::ArraySpec spec;
  spec.dtype = value.dtype;
  spec.dims = value.shard_dims;
  spec.layout = value.layout;
  if (value.dtype == buffers::DType::kToken) {  // a token has no contents: all devices have it, and XLA's sharding is ignored
    spec.sharding = buffers::Sharding::Replicated(executable.devices, value.memory_kind);
    return spec;
  }
  PW_ASSIGN_OR_RETURN(spec.sharding, OpShardingToSharding(value.op_sharding, executable.devices, value.memory_kind,
                                                          static_cast<int>(value.shard_dims.size())));
  const buffers::Dims& counts = spec.sharding.tiles().counts;
  for (size_t d = 0; d < counts.size(); ++d) {
    if (__builtin_mul_overflow(spec.dims[d], counts[d], &spec.dims[d]))
      return absl::InvalidArgumentError("the whole array's size overflows");
  }
  PW_RETURN_IF_ERROR(buffers::Validate(spec));
  return spec;
}

absl::Status Annotate(const absl::Status& status, const std::string& name, const char* what, int index) {
  return absl::Status(status.code(), absl::StrCat(what, " ", index, " of program ", name, ": ", status.message()));
}

bool SameShardDims(const buffers::ArraySpec& spec, const buffers::Dims& shard_dims) {
  const buffers::Dims& counts = spec.sharding.tiles().counts;
  if (spec.dims.size() != shard_dims.size()) return false;
  for (size_t d = 0; d < shard_dims.size(); ++d) {
    const int64_t count = counts.empty() ? 1 : counts[d];
    if (spec.dims[d] % count != 0 || spec.dims[d] / count != shard_dims[d]) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Executable>> CompleteExecutable(Executable record, const Compiled& compiled) {
  record.name = compiled.name();
  record.fingerprint = compiled.fingerprint();
  auto specs = std::make_shared<std::vector<buffers::ArraySpec>>();
  for (const Compiled::Value& proto : compiled.parameters()) {
    auto value = MakeValue(proto);
    if (!value.ok()) return Annotate(value.status(), record.name, "parameter", static_cast<int>(record.parameters.size()));
    record.parameters.push_back(*std::move(value));
  }
  for (const Compiled::Value& proto : compiled.outputs()) {
    const int index = static_cast<int>(record.outputs.size());
    auto value = MakeValue(proto);
    if (!value.ok()) return Annotate(value.status(), record.name, "result", index);
    auto spec = WholeArray(record, *value);
    if (!spec.ok()) return Annotate(spec.status(), record.name, "result", index);
    record.outputs.push_back(*std::move(value));
    specs->push_back(*std::move(spec));
  }
  for (int32_t index : compiled.donated_inputs()) {
    if (index < 0 || index >= static_cast<int>(record.parameters.size())) {
      return absl::InternalError(
          absl::StrCat("program ", record.name, " is said to donate argument ", index, " of ", record.parameters.size()));
    }
    record.donated_inputs.push_back(index);
  }
  record.output_specs = std::move(specs);
  record.memory_stats = compiled.memory_stats();
  record.code_bytes = compiled.code_bytes();
  return std::make_shared<const Executable>(std::move(record));
}

absl::StatusOr<buffers::ArraySpec> ParameterSpec(const Executable& executable, int index) {
  auto spec = WholeArray(executable, executable.parameters[index]);
  if (!spec.ok()) return Annotate(spec.status(), executable.name, "parameter", index);
  return spec;
}

absl::Status CheckArgument(const Executable& executable, int index, const buffers::ArraySpec& spec) {
  const Value& parameter = executable.parameters[index];
  const char* problem = nullptr;
  if (spec.sharding.devices() != executable.devices) {
    problem = "lives on other devices than the program was compiled for";
  } else if (parameter.dtype == buffers::DType::kToken) {
    // The client makes the first token of a chain of ordered effects, as an empty array of booleans.
    if (spec.dtype != buffers::DType::kToken && spec.dtype != buffers::DType::kPred) problem = "is not a token";
  } else if (spec.dtype != parameter.dtype) {
    problem = "has another element type";
  } else if (!SameShardDims(spec, parameter.shard_dims)) {
    problem = "has shards of another shape";
  }
  if (problem == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "argument ", index, " of program ", executable.name, " ", problem, ": it is ", buffers::ToString(spec), " (",
      buffers::DeviceNumbers(spec.sharding.devices()), "); each of the program's ", executable.devices.size(), " devices takes ",
      std::string(buffers::Name(parameter.dtype)), "[", absl::StrJoin(parameter.shard_dims, ","), "]"));
}

}  // namespace pw::program
