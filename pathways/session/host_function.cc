#include "pathways/session/host_function.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

std::vector<DeviceId> Sorted(std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::string Named(const std::string& name, const char* what, size_t index) {
  return absl::StrCat(what, " ", index, " of the Python function ", name);
}

absl::StatusOr<std::vector<buffers::ArraySpec>> SpecsFrom(const google::protobuf::RepeatedPtrField<v1::ArraySpec>& protos,
                                                          const std::vector<DeviceId>& sorted, const std::string& name,
                                                          const char* what) {
  std::vector<buffers::ArraySpec> specs;
  for (const v1::ArraySpec& proto : protos) {
    absl::StatusOr<buffers::ArraySpec> spec = SpecFrom(proto);
    const std::string of = Named(name, what, specs.size());
    if (!spec.ok()) return absl::Status(spec.status().code(), absl::StrCat(of, ": ", spec.status().message()));
    if (Sorted(spec->sharding.devices()) != sorted) {
      return absl::InvalidArgumentError(absl::StrCat(of, " is on devices ", buffers::DeviceNumbers(spec->sharding.devices()),
                                                     ", which are not those of the function"));
    }
    specs.push_back(*std::move(spec));
  }
  return specs;
}

}  // namespace

std::string SerializeHostFunction(HostFunction function) {
  v1::HostFunction proto;
  proto.set_name(std::move(function.name));
  proto.set_text(std::move(function.text));
  ToProto(function.devices, proto.mutable_devices());
  for (const buffers::ArraySpec& spec : function.inputs) ToProto(spec, proto.add_inputs());
  for (const buffers::ArraySpec& spec : function.outputs) ToProto(spec, proto.add_outputs());
  ToProto(function.physical, proto.mutable_physical());
  return proto.SerializeAsString();
}

absl::Status CheckHostFunctionSize(size_t bytes) {
  if (bytes <= kMostHostFunctionBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a Python function of ", bytes, " bytes is larger than the limit of ",
                                                   kMostHostFunctionBytes,
                                                   ": pass large arrays as arguments instead of capturing them"));
}

absl::StatusOr<HostFunction> ParseHostFunction(const Bytes& bytes) {
  PW_RETURN_IF_ERROR(CheckHostFunctionSize(bytes.size()));
  v1::HostFunction proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return absl::InvalidArgumentError("a Python function does not parse");
  HostFunction function;
  function.name = std::move(*proto.mutable_name());
  function.text = std::move(*proto.mutable_text());
  function.devices = DevicesFrom(proto.devices());
  if (function.name.size() > 1024)
    return absl::InvalidArgumentError("the name of a Python function has more than 1024 characters");
  const std::vector<DeviceId> sorted = Sorted(function.devices);
  if (sorted.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return absl::InvalidArgumentError(absl::StrCat("the Python function ", function.name, " names no device, or one twice"));
  if (static_cast<size_t>(proto.inputs_size()) + static_cast<size_t>(proto.outputs_size()) > kMostHostFunctionArrays)
    return absl::ResourceExhaustedError(
        absl::StrCat("the Python function ", function.name, " has more than ", kMostHostFunctionArrays, " arrays"));
  PW_ASSIGN_OR_RETURN(function.inputs, SpecsFrom(proto.inputs(), sorted, function.name, "argument"));
  PW_ASSIGN_OR_RETURN(function.outputs, SpecsFrom(proto.outputs(), sorted, function.name, "result"));
  function.physical = DevicesFrom(proto.physical());
  if (!function.physical.empty() && function.physical.size() != function.devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the Python function ", function.name, " has ", function.devices.size(),
                                                   " devices and ", function.physical.size(), " physical ones"));
  }
  return function;
}

absl::Status CheckFunctionArgument(const HostFunction& function, size_t index, const buffers::ArraySpec& spec) {
  const buffers::ArraySpec& wanted = function.inputs[index];
  const buffers::Sharding &have = spec.sharding, &want = wanted.sharding;
  if (spec.dtype == wanted.dtype && spec.dims == wanted.dims && have.devices() == want.devices() && have.tiles() == want.tiles())
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Named(function.name, "argument", index), " is ", buffers::ToString(spec), " (",
                                                 buffers::DeviceNumbers(have.devices()), "), where the function takes ",
                                                 buffers::ToString(wanted), " (", buffers::DeviceNumbers(want.devices()), ")"));
}

}  // namespace pw::session
