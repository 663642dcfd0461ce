// compile: a table with an entry for each kind of program.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/host_function.h"
#include "pathways/frontend/convert/version.h"
#include "pathways/frontend/handlers/results.h"
#include "pathways/frontend/translation/translating_compiler.h"
#include "pathways/program/compile_options.h"
#include "pathways/program/program.h"

namespace pw::frontend {
namespace {

using xla::ifrt::proxy::CompileResponse;

absl::StatusOr<controller::CompileRequest> DecodeXlaProgram(const xla::ifrt::proxy::CompileRequest& request) {
  if (request.host_callbacks_size() > 0) {
    return absl::UnimplementedError(
        "this program calls back into the client process by a protocol that released clients cannot serve; use the callbacks of "
        "the pathways "
        "package (import jax with JAX_PLATFORMS=pathways)");
  }
  xla::ifrt::XlaCompileOptionsProto options;
  if (request.compile_options().type_name() != "xla::ifrt::XlaCompileOptions" ||
      !options.ParseFromString(request.compile_options().data())) {
    return absl::InvalidArgumentError(
        absl::StrCat("compile options of type '", request.compile_options().type_name(), "' cannot be read"));
  }
  PW_RETURN_IF_ERROR(CheckVersion("compile options", options.version_number(), kNewestXlaCompileOptions));
  if (options.outputs_bundle_slice_sizes_size() > 0) {
    return absl::UnimplementedError(
        "this server does not deliver several results of a program as one array (outputs_bundle_slice_sizes)");
  }
  controller::CompileRequest out;
  out.format = "mlir";
  out.program = Bytes::FromString(request.program().data());
  PW_ASSIGN_OR_RETURN(program::DeviceGrid grid, program::DevicesOf(options.compile_options().executable_build_options()));
  out.num_replicas = grid.num_replicas;
  out.num_partitions = grid.num_partitions;
  out.devices = std::move(grid.devices);
  out.options = program::CanonicalCompileOptions(std::move(*options.mutable_compile_options()));
  return out;
}

void AnswerCompile(ClientSession& session, const controller::ExecutableInfo& info, Reply reply) {
  IfrtResponse response;
  CompileResponse& out = *response.mutable_compile_response();
  out.set_loaded_executable_handle(info.handle);
  out.set_name(info.name);
  out.set_num_devices(static_cast<int32_t>(info.devices.size()));
  for (DeviceId device : info.devices) {
    out.add_device_ids(device.v);
    out.add_addressable_device_ids(device.v);
  }
  out.set_fingerprint_value(info.fingerprint);
  const controller::Handle ready = session.session().NewHandle();
  session.AddFuture(ready, {ReadyFuture(absl::OkStatus())});
  out.set_ready_future_handle(ready);
  std::move(reply).Send(std::move(response));
}

Action CompileXla(const xla::ifrt::proxy::CompileRequest& message) {
  absl::StatusOr<controller::CompileRequest> request = DecodeXlaProgram(message);
  if (!request.ok()) return FailWith({}, request.status());
  return [request = *std::move(request)](ClientSession& session, Reply reply) mutable {
    auto done = [weak = session.weak_from_this(),
                 reply = std::move(reply)](absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> info) mutable {
      if (!info.ok()) return std::move(reply).Fail(info.status());
      if (auto session = weak.lock(); session != nullptr && session->open()) AnswerCompile(*session, **info, std::move(reply));
    };
    if (TranslatingCompiler* compiler = session.services().compiler.get(); compiler != nullptr)
      return compiler->Compile(session, std::move(request), std::move(done));
    session.session().Compile(std::move(request), std::move(done));
  };
}

void AddPlugin(ClientSession& session, std::shared_ptr<PluginExecutable> executable, Reply reply) {
  controller::ExecutableInfo info;
  info.handle = session.session().NewHandle();
  info.name = executable->name();
  info.fingerprint = executable->name();
  info.devices = executable->devices(session.cluster_info());
  session.plugin_executables().emplace(info.handle, std::move(executable));
  AnswerCompile(session, info, std::move(reply));
}

// Compiles a program of many nodes (pathways/v1/program.proto).
Action CompileProgram(absl::string_view bytes) {
  return [program = Bytes::FromString(std::string(bytes))](ClientSession& session, Reply reply) {
    session.session().CompileProgram(
        program, [weak = session.weak_from_this(),
                  reply = std::move(reply)](absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> info) mutable {
          if (!info.ok()) return std::move(reply).Fail(info.status());
          if (auto session = weak.lock(); session != nullptr && session->open())
            AnswerCompile(*session, **info, std::move(reply));
        });
  };
}

Action CompilePlugin(const xla::ifrt::proxy::CompileRequest& message) {
  constexpr absl::string_view kPrefix = "__serialized_plugin_program ";
  absl::string_view text = message.program().data();
  if (!absl::ConsumePrefix(&text, kPrefix))
    return FailWith({}, absl::InvalidArgumentError("Bad PluginProgram: it does not begin as one"));
  if (absl::string_view bytes = text; absl::ConsumePrefix(&bytes, program::kProgramMagic)) return CompileProgram(bytes);
  auto executable = MakePluginExecutable(text);
  if (!executable.ok()) return FailWith({}, executable.status());
  return [executable = *std::move(executable)](ClientSession& session, Reply reply) {
    executable->Prepare(session,
                        [executable, weak = session.weak_from_this(), reply = std::move(reply)](absl::Status status) mutable {
                          if (!status.ok()) return std::move(reply).Fail(status);
                          if (auto session = weak.lock(); session != nullptr && session->open())
                            AddPlugin(*session, std::move(executable), std::move(reply));
                        });
  };
}

// Compiles a Python function for hosts. No error may contain "PjRtCompiler requires an HloProgram": jax would then run the
// function in the client's own process.
Action CompileHostFunction(const xla::ifrt::proxy::CompileRequest& message) {
  absl::StatusOr<session::HostFunction> function = HostFunctionFromProto(message);
  if (!function.ok()) return FailWith({}, function.status());
  controller::CompileRequest request;
  request.format = session::kHostFunctionFormat;
  request.program = Bytes::FromString(session::SerializeHostFunction(*std::move(function)));
  return [request = std::move(request)](ClientSession& session, Reply reply) mutable {
    session.session().Compile(std::move(request),
                              [weak = session.weak_from_this(), reply = std::move(reply)](
                                  absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> info) mutable {
                                if (!info.ok()) return std::move(reply).Fail(info.status());
                                if (auto session = weak.lock(); session != nullptr && session->open())
                                  AnswerCompile(*session, **info, std::move(reply));
                              });
  };
}

Action RefuseIfrtIr(const xla::ifrt::proxy::CompileRequest&) {
  return FailWith({},
                  absl::UnimplementedError(
                      "programs of several meshes as jaxlib's MPMD partitioner writes them (xla::ifrt::IfrtIRProgram) are not "
                      "supported by this server: `import pathways as pw` and @pw.program make such programs of plain functions"));
}

Action DecodeCompile(const IfrtRequest& message) {
  const auto& request = message.compile_request();
  const std::string& type = request.program().type_name();
  if (type == "xla::ifrt::XlaProgram" || type == "xla::ifrt::HloProgram") return CompileXla(request);
  if (type == "xla::ifrt::PluginProgram") return CompilePlugin(request);
  if (type == "xla::ifrt::CustomCallProgram") return CompileHostFunction(request);
  if (type == "xla::ifrt::IfrtIRProgram") return RefuseIfrtIr(request);
  return FailWith({}, absl::UnimplementedError(absl::StrCat("programs of type '", type, "' are not supported by this server")));
}

constexpr Handler kCompileHandlers[] = {{IfrtRequest::kCompileRequest, "compile", DecodeCompile}};

}  // namespace

absl::Span<const Handler> CompileHandlers() { return kCompileHandlers; }

}  // namespace pw::frontend
