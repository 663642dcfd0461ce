// Compiles programs, and converts executables to bytes and back. The bytes hold the source of a program, which a later client
// compiles again. So jax's persistent compilation cache works here; the machine code is in the compile caches of the cluster's
// hosts.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/program/client_calls.h"
#include "pathways/program/compile_options.h"
#include "pathways/program/executable.h"
#include "pathways/program/serialized_executable.h"
#include "plugins/pathways_pjrt/handles.h"

struct PJRT_SerializedExecutable {
  std::string bytes;
};

struct PJRT_SerializedCompileOptions {
  std::string bytes;
};

namespace pw::pathways_pjrt {
namespace {

absl::string_view ViewOf(const Bytes& bytes) { return {bytes.view().data(), bytes.size()}; }

struct Request {
  session::CompileRequest compile;
  std::optional<PortOptions> port;
  ProgramSource source;
};

absl::StatusOr<Request> ReadRequest(ProgramSource source) {
  if (const absl::string_view call = program::ClientCallIn(ViewOf(source.module)); !call.empty())
    return NotYet(absl::StrCat("the call ", call, " of a program into its client's process"));
  xla::CompileOptionsProto options;
  if (!options.ParseFromString(source.options))
    return absl::InvalidArgumentError("the compile options are not a serialized xla.CompileOptionsProto");
  PW_ASSIGN_OR_RETURN(program::DeviceGrid grid, program::DevicesOf(options.executable_build_options()));
  Request request;
  PW_ASSIGN_OR_RETURN(request.port, ReadPortOptions(options));
  request.compile.format = "mlir";
  if (!request.port.has_value()) {
    request.compile.program = source.module;
    request.source = std::move(source);
  }
  request.compile.num_replicas = grid.num_replicas;
  request.compile.num_partitions = grid.num_partitions;
  request.compile.devices = std::move(grid.devices);
  request.compile.options = program::CanonicalCompileOptions(std::move(options));
  return request;
}

// Checks the controller's description of a program, before it is used to index lists.
absl::Status CheckInfo(const session::ExecutableInfo& info, int replicas, int partitions) {
  const auto is_parameter = [&](int32_t i) { return i >= 0 && i < static_cast<int32_t>(info.parameters.size()); };
  if (info.devices.size() == static_cast<size_t>(replicas) * partitions && info.outputs.size() == info.output_specs.size() &&
      std::all_of(info.donated_inputs.begin(), info.donated_inputs.end(), is_parameter))
    return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the controller's description of program ", info.name, " contradicts itself"));
}

// Sets the specs of the whole arrays that the program takes. They have no layout of their own: an array keeps that of its shards.
absl::Status ReadParameters(Program& program) {
  program::Executable record;
  record.name = program.info->name;
  record.devices = program.info->devices;
  for (const session::ValueInfo& value : program.info->parameters)
    record.parameters.push_back({value.dtype, value.shard_dims, value.op_sharding, "", value.memory_kind});
  for (size_t i = 0; i < record.parameters.size(); ++i) {
    PW_ASSIGN_OR_RETURN(program.parameter_specs.emplace_back(), program::ParameterSpec(record, static_cast<int>(i)));
  }
  return absl::OkStatus();
}

// Compiles the program that a port's options carry, or finds it.
absl::StatusOr<std::shared_ptr<ManyNodes>> ProgramOf(PJRT_Client* client, PortOptions& port) {
  if (!port.program.empty()) {
    PW_ASSIGN_OR_RETURN(client::Executable info,
                        Await(client->session->CompileProgram(Bytes::FromString(std::move(port.program)))));
    auto program = std::make_shared<ManyNodes>(client->session.get(), std::move(info), port.ports);
    std::lock_guard<std::mutex> lock(client->mu);
    absl::erase_if(client->many_nodes, [](const auto& known) { return known.second.expired(); });
    client->many_nodes[port.key] = program;
    return program;
  }
  std::lock_guard<std::mutex> lock(client->mu);
  auto found = client->many_nodes.find(port.key);
  std::shared_ptr<ManyNodes> program = found == client->many_nodes.end() ? nullptr : found->second.lock();
  if (program == nullptr) return absl::NotFoundError(absl::StrCat("no port has brought the program ", port.key));
  return program;
}

absl::StatusOr<std::shared_ptr<Program>> CompilePort(PJRT_Client* client, Request request) {
  Port port{*std::move(request.port), nullptr};
  PW_ASSIGN_OR_RETURN(port.program, ProgramOf(client, port.options));
  PW_ASSIGN_OR_RETURN(client::Executable part, port.program->AddPort(port.options, request.compile.devices));
  return std::make_shared<Program>(client->session.get(), std::move(part), request.compile.num_replicas,
                                   request.compile.num_partitions, std::move(request.source), std::move(port));
}

absl::StatusOr<std::shared_ptr<Program>> CompileProgram(PJRT_Client* client, Request request) {
  if (request.port.has_value()) return CompilePort(client, std::move(request));
  const int replicas = request.compile.num_replicas, partitions = request.compile.num_partitions;
  PW_ASSIGN_OR_RETURN(client::Executable info, Await(client->session->Compile(std::move(request.compile))));
  return std::make_shared<Program>(client->session.get(), std::move(info), replicas, partitions, std::move(request.source),
                                   std::nullopt);
}

// Compiles a program and loads it on its devices.
absl::StatusOr<PJRT_LoadedExecutable*> Load(PJRT_Client* client, ProgramSource source) {
  PW_ASSIGN_OR_RETURN(Request request, ReadRequest(std::move(source)));
  PW_ASSIGN_OR_RETURN(const std::shared_ptr<Program> program, CompileProgram(client, std::move(request)));
  PW_RETURN_IF_ERROR(CheckInfo(*program->info, program->num_replicas, program->num_partitions));
  PW_RETURN_IF_ERROR(ReadParameters(*program));
  auto loaded = std::make_unique<PJRT_LoadedExecutable>();
  loaded->client = client;
  for (DeviceId id : program->info->devices) {
    auto device = client->device_of.find(id);
    if (device == client->device_of.end()) {
      return absl::InternalError(absl::StrCat("the program runs on device ", id.v, ", which the cluster did not announce"));
    }
    loaded->devices.push_back(device->second);
  }
  loaded->program = program;
  return loaded.release();
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  const absl::string_view format(args->program->format, args->program->format_size);
  if (format != "mlir") return NewError(NotYet(absl::StrCat("compiling a program in the format '", format, "'")));
  ProgramSource source{Bytes::Copy({args->program->code, args->program->code_size}),
                       std::string(args->compile_options, args->compile_options_size)};
  PW_ENTRY_ASSIGN_OR_RETURN(args->executable, Load(args->client, std::move(source)));
  return nullptr;
}

// Returns INVALID_ARGUMENT for a port: a part of a program has no meaning without the others.
absl::Status CheckHasSource(const Program& program, absl::string_view what) {
  if (!program.port.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a part of a program of many nodes has no ", what, "; make the program anew"));
}

PJRT_Error* Serialize(PJRT_Executable_Serialize_Args* args) {
  const Program& program = *args->executable->program;
  PW_ENTRY_RETURN_IF_ERROR(CheckHasSource(program, "serialized form"));
  const session::ClusterInfo& cluster = program.session->cluster();
  PW_ENTRY_ASSIGN_OR_RETURN(std::string bytes,
                            program::SerializeExecutable(cluster.platform_name, cluster.platform_version,
                                                         ViewOf(program.source.module), program.source.options));
  auto* out = new PJRT_SerializedExecutable{std::move(bytes)};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_executable = out;
  args->serialized_executable_deleter = [](PJRT_SerializedExecutable* executable) { delete executable; };
  return nullptr;
}

PJRT_Error* GetCompileOptions(PJRT_Executable_GetCompileOptions_Args* args) {
  const Program& program = *args->executable->program;
  PW_ENTRY_RETURN_IF_ERROR(CheckHasSource(program, "compile options of its own"));
  auto* out = new PJRT_SerializedCompileOptions{program.source.options};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_compile_options = out;
  args->serialized_compile_options_deleter = [](PJRT_SerializedCompileOptions* options) { delete options; };
  return nullptr;
}

// Returns FAILED_PRECONDITION for another platform's program: it may need features that this cluster's devices do not have.
absl::Status CheckPlatform(const program::SerializedExecutable& serialized, const session::ClusterInfo& cluster) {
  if (serialized.platform_name == cluster.platform_name && serialized.platform_version == cluster.platform_version)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this executable was serialized on a cluster of '",
                                                    serialized.platform_version, "', and this one has '",
                                                    cluster.platform_version, "'. Compile the program again"));
}

PJRT_Error* DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args* args) {
  PW_ENTRY_ASSIGN_OR_RETURN(program::SerializedExecutable serialized,
                            program::ParseExecutable({args->serialized_executable, args->serialized_executable_size}));
  PW_ENTRY_RETURN_IF_ERROR(CheckPlatform(serialized, args->client->cluster()));
  if (PW_HAS_FIELD(args, overridden_serialized_compile_options_size) && args->overridden_serialized_compile_options != nullptr) {
    serialized.options.assign(args->overridden_serialized_compile_options, args->overridden_serialized_compile_options_size);
  }
  ProgramSource source{Bytes::FromString(std::move(serialized.module)), std::move(serialized.options)};
  PW_ENTRY_ASSIGN_OR_RETURN(args->loaded_executable, Load(args->client, std::move(source)));
  return nullptr;
}

}  // namespace

void FillCompileEntries(PJRT_Api* api) {
  api->PJRT_Client_Compile = Compile;
  api->PJRT_Executable_Serialize = Serialize;
  api->PJRT_Executable_GetCompileOptions = GetCompileOptions;
  api->PJRT_Executable_DeserializeAndLoad = DeserializeAndLoad;
}

}  // namespace pw::pathways_pjrt
