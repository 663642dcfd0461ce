// loaded_executable_execute and loaded_executable_fetch_execute_result.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/convert/dtype.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/handlers/results.h"

namespace pw::frontend {
namespace {

using controller::ExecuteRequest;
using controller::Handle;
using ExecuteResponse = xla::ifrt::proxy::LoadedExecutableExecuteResponse;

void FillOutputs(absl::Span<const Handle> results, const std::vector<buffers::ArraySpec>& specs, ExecuteResponse& out) {
  for (size_t i = 0; i < specs.size(); ++i) {
    ExecuteResponse::Output& output = *out.add_outputs();
    *output.mutable_dtype() = DTypeToProto(specs[i].dtype);
    output.mutable_shape()->mutable_dims()->Assign(specs[i].dims.begin(), specs[i].dims.end());
    *output.mutable_sharding() = ShardingToProto(specs[i].sharding);
    output.set_array_handle(results[i]);
  }
}

// The end of a plugin program's run, set once.
class RunEnd {
 public:
  Future<Unit> future() const { return promise_.future(); }
  void Tell(const absl::Status& status) {
    if (!std::exchange(told_, true)) promise_.Set(status.ok() ? absl::StatusOr<Unit>(Unit{}) : absl::StatusOr<Unit>(status));
  }

 private:
  Promise<Unit> promise_;
  bool told_ = false;
};

void ExecutePlugin(ClientSession& session, PluginExecutable& executable, const ExecuteRequest& request, bool first_call,
                   Reply reply) {
  // Added first, so that the status handle answers even if the run fails at once.
  auto end = std::make_shared<RunEnd>();
  if (request.status != 0) session.AddFuture(request.status, {end->future()});
  auto outputs = executable.Outputs(session, request.args);
  if (!outputs.ok()) {
    end->Tell(outputs.status());
    session.Poison(request.results, outputs.status());
    return std::move(reply).Fail(outputs.status());
  }
  absl::StatusOr<Handles> results = ResultHandles(session, request.results, outputs->size());
  if (!results.ok()) {
    end->Tell(results.status());
    return std::move(reply).Fail(results.status());
  }
  const absl::Status status = executable.Execute(session, request.args, *results, [end](const absl::Status& s) { end->Tell(s); });
  if (!status.ok()) {
    end->Tell(status);
    session.Poison(*results, status);
  }
  IfrtResponse response;
  ExecuteResponse& out = *response.mutable_loaded_executable_execute_response();
  out.set_status_handle(request.status);
  if (first_call) FillOutputs(*results, *outputs, out);
  std::move(reply).Finish(status, std::move(response));
}

void Execute(ClientSession& session, ExecuteRequest request, bool first_call, Reply reply) {
  if (auto it = session.plugin_executables().find(request.executable); it != session.plugin_executables().end()) {
    std::shared_ptr<PluginExecutable> executable = it->second;
    return ExecutePlugin(session, *executable, request, first_call, std::move(reply));
  }
  if (session.deleted_executables().contains(request.executable)) {
    absl::Status error = absl::FailedPreconditionError(absl::StrCat("executable ", request.executable, " has been deleted"));
    session.Poison(request.results, error);
    return std::move(reply).Fail(error);
  }
  absl::StatusOr<controller::ExecuteReply> run = session.session().Execute(request);
  IfrtResponse response;
  ExecuteResponse& out = *response.mutable_loaded_executable_execute_response();
  if (run.ok()) {
    session.fetches_ahead().OnRun(session.shared_session(), request.executable, run->results);
    out.set_status_handle(request.status);
    if (first_call) FillOutputs(run->results, *run->specs, out);
  }
  std::move(reply).Finish(run.status(), std::move(response));
}

// In a client's first call of an executable the server chooses the result handles. Each call of an executable without outputs
// looks like a first one, which is harmless.
Action DecodeExecute(const IfrtRequest& message) {
  const auto& request = message.loaded_executable_execute_request();
  ExecuteRequest out;
  out.executable = request.loaded_executable_handle();
  out.args = ToHandles(request.args_handles());
  out.results = ToHandles(request.result_array_handle());
  out.launch_id = request.execute_options().launch_id();
  out.stream = static_cast<uint64_t>(request.execute_options().execution_stream_id());
  const auto& kept = request.execute_options().non_donatable_input_indices();
  out.non_donatable.assign(kept.begin(), kept.end());
  for (int32_t id : request.device_ids()) out.devices.push_back(DeviceId(id));
  const bool first_call = out.results.empty();
  return [out = std::move(out), first_call, with_status = request.execute_options().fill_status(),
          status = request.result_status_handle()](ClientSession& session, Reply reply) mutable {
    if (with_status) out.status = status != 0 ? status : session.session().NewHandle();
    Execute(session, std::move(out), first_call, std::move(reply));
  };
}

Action DecodeFetchResult(const IfrtRequest& message) {
  return [handle = message.loaded_executable_fetch_execute_result_request().result_status_handle()](ClientSession& session,
                                                                                                    Reply reply) {
    auto answer = [reply = std::move(reply)](absl::StatusOr<controller::RunResult> result) mutable {
      IfrtResponse response;
      auto& out = *response.mutable_loaded_executable_fetch_execute_result_response();
      if (result.ok()) out.mutable_device_time()->insert(result->device_microseconds.begin(), result->device_microseconds.end());
      std::move(reply).Finish(result.status(), std::move(response));
    };
    auto future = session.TakeFuture(handle);
    if (!future) return session.session().FetchExecuteResult(handle, std::move(answer));
    future->value.OnReady([answer = std::move(answer)](const absl::StatusOr<Unit>& end) mutable {
      answer(end.ok() ? absl::StatusOr<controller::RunResult>(controller::RunResult{}) : end.status());
    });
  };
}

// The client waits only for the first execution; SessionStream::Write detects that one.
constexpr Handler kExecuteHandlers[] = {
    {IfrtRequest::kLoadedExecutableExecuteRequest, "loaded_executable_execute", DecodeExecute, true, false},
    {IfrtRequest::kLoadedExecutableFetchExecuteResultRequest, "loaded_executable_fetch_execute_result", DecodeFetchResult},
};

}  // namespace

absl::Span<const Handler> ExecuteHandlers() { return kExecuteHandlers; }

}  // namespace pw::frontend
