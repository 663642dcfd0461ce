// Requests about executables: metadata, cost analysis, program text, delete, is_deleted, destruct.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/convert/status.h"
#include "pathways/frontend/handlers/results.h"

namespace pw::frontend {
namespace {

using controller::ExecutableInfo;
using controller::Handle;
using controller::ValueInfo;
using Metadata = xla::ifrt::proxy::LoadedExecutableMetadataResponse;

constexpr char kNotOfPlugins[] = "a plugin program has none";

// Leaves the field unset if one sharding is unknown: the client then treats all of them as unknown.
void FillShardings(const std::vector<ValueInfo>& values, Metadata::ShardingList* (Metadata::*mutable_list)(),
                   void (Metadata::*clear)(), Metadata& out) {
  if (values.empty()) return;
  Metadata::ShardingList& list = *(out.*mutable_list)();
  for (const ValueInfo& value : values) {
    if (value.op_sharding.empty() || !list.add_shardings()->ParseFromString(value.op_sharding)) return (out.*clear)();
  }
}

// Returns false if some value has no layout (tokens).
bool FillLayouts(const std::vector<ValueInfo>& values, Metadata::LayoutList& list) {
  for (const ValueInfo& value : values) {
    if (value.dtype == buffers::DType::kToken) return false;
    xla::LayoutProto& layout = *list.add_layouts();
    if (!value.layout.empty()) {
      if (!layout.ParseFromString(value.layout)) return false;
      continue;
    }
    for (int d = static_cast<int>(value.shard_dims.size()) - 1; d >= 0; --d) layout.add_minor_to_major(d);
  }
  return true;
}

void FillMetadata(const ExecutableInfo& info, Metadata& out) {
  FillShardings(info.parameters, &Metadata::mutable_parameter_shardings, &Metadata::clear_parameter_shardings, out);
  FillShardings(info.outputs, &Metadata::mutable_output_shardings, &Metadata::clear_output_shardings, out);
  const absl::Status no_layout = absl::UnimplementedError("tokens have no layout");
  if (!FillLayouts(info.parameters, *out.mutable_parameter_layouts_list()))
    *out.mutable_parameter_layouts_error() = StatusToProto(no_layout);
  if (!FillLayouts(info.outputs, *out.mutable_output_layouts_list()))
    *out.mutable_output_layouts_error() = StatusToProto(no_layout);
  auto& kinds = *out.mutable_output_memory_kinds()->add_memory_kind_lists();
  for (const ValueInfo& value : info.outputs) kinds.add_memory_kinds(value.memory_kind.empty() ? "device" : value.memory_kind);
  auto& donated = *out.mutable_donated_input_indices();
  for (int32_t index : info.donated_inputs) donated.add_donated_input_indices(static_cast<uint32_t>(index));
  if (info.memory_stats.empty() || !out.mutable_compiled_memory_stats()->ParseFromString(info.memory_stats)) {
    *out.mutable_compiled_memory_stats_error() =
        StatusToProto(absl::UnimplementedError("the device runtime gives no memory statistics"));
  }
  out.set_size_of_generated_code_in_bytes(info.code_bytes);
}

void FillPluginMetadata(Metadata& out) {
  const auto none = StatusToProto(absl::UnimplementedError(kNotOfPlugins));
  *out.mutable_parameter_layouts_error() = none;
  *out.mutable_output_layouts_error() = none;
  *out.mutable_compiled_memory_stats_error() = none;
  out.mutable_donated_input_indices();
}

Action DecodeMetadata(const IfrtRequest& message) {
  return [handle = message.loaded_executable_metadata_request().loaded_executable_handle()](ClientSession& session, Reply reply) {
    IfrtResponse response;
    Metadata& out = *response.mutable_loaded_executable_metadata_response();
    if (session.plugin_executables().contains(handle)) {
      FillPluginMetadata(out);
      return std::move(reply).Send(std::move(response));
    }
    auto info = session.session().Info(handle);
    if (info.ok()) FillMetadata(**info, out);
    std::move(reply).Finish(info.status(), std::move(response));
  };
}

Action DecodeCostAnalysis(const IfrtRequest& message) {
  return [handle = message.loaded_executable_cost_analysis_request().loaded_executable_handle()](ClientSession& session,
                                                                                                 Reply reply) {
    if (session.plugin_executables().contains(handle)) return std::move(reply).Fail(absl::UnimplementedError(kNotOfPlugins));
    session.session().GetCostAnalysis(handle, [reply = std::move(reply)](absl::StatusOr<controller::CostAnalysis> costs) mutable {
      IfrtResponse response;
      if (costs.ok()) {
        Attributes attributes;
        for (const auto& [name, number] : costs->numbers) attributes[name] = static_cast<float>(number);
        *response.mutable_loaded_executable_cost_analysis_response()->mutable_attributes() = AttributesToProto(attributes);
      }
      std::move(reply).Finish(costs.status(), std::move(response));
    });
  };
}

Action DecodeProgramText(const IfrtRequest& message) {
  return [handle = message.loaded_executable_human_readable_program_text_request().loaded_executable_handle()](
             ClientSession& session, Reply reply) {
    if (session.plugin_executables().contains(handle)) return std::move(reply).Fail(absl::UnimplementedError(kNotOfPlugins));
    session.session().GetProgramText(handle, [reply = std::move(reply)](absl::StatusOr<std::string> text) mutable {
      if (!text.ok()) return std::move(reply).Fail(text.status());
      IfrtResponse response;
      response.mutable_loaded_executable_human_readable_program_text_response()->set_human_readable_program_text(
          *std::move(text));
      std::move(reply).Finish(absl::OkStatus(), std::move(response));
    });
  };
}

bool Knows(ClientSession& session, Handle executable) {
  return session.plugin_executables().contains(executable) || session.session().Info(executable).ok();
}

absl::Status Unknown(Handle executable) { return absl::NotFoundError(absl::StrCat("there is no executable ", executable)); }

Action DecodeDelete(const IfrtRequest& message) {
  return [handle = message.loaded_executable_delete_request().loaded_executable_handle()](ClientSession& session, Reply reply) {
    if (!Knows(session, handle)) return std::move(reply).Fail(Unknown(handle));
    session.deleted_executables().insert(handle);
    const Handle future = session.session().NewHandle();
    session.AddFuture(future, {ReadyFuture(absl::OkStatus())});
    IfrtResponse response;
    response.mutable_loaded_executable_delete_response()->set_future_handle(future);
    std::move(reply).Send(std::move(response));
  };
}

Action DecodeIsDeleted(const IfrtRequest& message) {
  return
      [handle = message.loaded_executable_is_deleted_request().loaded_executable_handle()](ClientSession& session, Reply reply) {
        if (!Knows(session, handle)) return std::move(reply).Fail(Unknown(handle));
        IfrtResponse response;
        response.mutable_loaded_executable_is_deleted_response()->set_is_deleted(session.deleted_executables().contains(handle));
        std::move(reply).Send(std::move(response));
      };
}

Action DecodeDestruct(const IfrtRequest& message) {
  return [handle = message.loaded_executable_destruct_request().loaded_executable_handle()](ClientSession& session, Reply reply) {
    session.deleted_executables().erase(handle);
    session.fetches_ahead().OnExecutableGone(handle);
    IfrtResponse response;
    response.mutable_loaded_executable_destruct_response();
    const bool plugin = session.plugin_executables().erase(handle) > 0;
    std::move(reply).Finish(plugin ? absl::OkStatus() : session.session().DestructExecutable(handle), std::move(response));
  };
}

Action DecodeMpmd(const IfrtRequest&) {
  return FailWith({}, absl::UnimplementedError("this executable is not a program of several meshes"));
}

constexpr Handler kExecutableHandlers[] = {
    {IfrtRequest::kLoadedExecutableMetadataRequest, "loaded_executable_metadata", DecodeMetadata},
    {IfrtRequest::kLoadedExecutableCostAnalysisRequest, "loaded_executable_cost_analysis", DecodeCostAnalysis},
    {IfrtRequest::kLoadedExecutableHumanReadableProgramTextRequest, "loaded_executable_human_readable_program_text",
     DecodeProgramText},
    {IfrtRequest::kLoadedExecutableDeleteRequest, "loaded_executable_delete", DecodeDelete},
    {IfrtRequest::kLoadedExecutableIsDeletedRequest, "loaded_executable_is_deleted", DecodeIsDeleted},
    {IfrtRequest::kLoadedExecutableDestructRequest, "loaded_executable_destruct", DecodeDestruct, true, false},
    {IfrtRequest::kLoadedExecutableMpmdMetadataRequest, "loaded_executable_mpmd_metadata", DecodeMpmd},
    {IfrtRequest::kLoadedExecutableMpmdCostAnalysisRequest, "loaded_executable_mpmd_cost_analysis", DecodeMpmd},
};

}  // namespace

absl::Span<const Handler> ExecutableHandlers() { return kExecutableHandlers; }

}  // namespace pw::frontend
