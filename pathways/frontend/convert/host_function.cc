#include "pathways/frontend/convert/host_function.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/specs.h"
#include "pathways/frontend/convert/version.h"

namespace pw::frontend {
namespace {

constexpr char kColocatedPython[] = "jax_colocated_python_v0.0.1";

absl::Status CheckOptions(const xla::ifrt::Serialized& serialized) {
  if (serialized.data().empty()) return absl::OkStatus();  // as clients before jaxlib 0.11 send them
  xla::ifrt::CustomCallCompileOptionsProto options;
  if (serialized.type_name() != "xla::ifrt::CustomCallCompileOptions" || !options.ParseFromString(serialized.data()))
    return absl::InvalidArgumentError(absl::StrCat("compile options of type '", serialized.type_name(), "' cannot be read"));
  PW_RETURN_IF_ERROR(CheckVersion("compile options of custom calls", options.version_number(), kNewestCustomCallOptions));
  if (options.outputs_bundle_slice_sizes().empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "this server does not deliver several results of a Python function as one array (outputs_bundle_slice_sizes)");
}

}  // namespace

absl::StatusOr<session::HostFunction> HostFunctionFromProto(const xla::ifrt::proxy::CompileRequest& request) {
  PW_RETURN_IF_ERROR(CheckOptions(request.compile_options()));
  PW_RETURN_IF_ERROR(session::CheckHostFunctionSize(request.program().data().size()));
  xla::ifrt::CustomCallProgramProto program;
  if (!program.ParseFromString(request.program().data())) return absl::InvalidArgumentError("a custom call does not parse");
  PW_RETURN_IF_ERROR(CheckVersion("custom calls", program.version_number()));
  if (program.type() != kColocatedPython) {
    return absl::UnimplementedError(absl::StrCat("custom calls of type '", program.type(),
                                                 "' are not supported by this server, which knows '", kColocatedPython, "'"));
  }
  session::HostFunction function;
  function.name = std::move(*program.mutable_name());
  function.text = std::move(*program.mutable_serialized_program_text());
  for (int32_t id : program.devices().device_ids()) function.devices.push_back(DeviceId(id));
  for (const auto& proto : program.input_specs()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFromProto(proto));
    function.inputs.push_back(std::move(spec));
  }
  for (const auto& proto : program.output_specs()) {
    PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, SpecFromProto(proto));
    function.outputs.push_back(std::move(spec));
  }
  return function;
}

}  // namespace pw::frontend
