#include "plugins/pjrt_cpu/profiler.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tsl/profiler/lib/profiler_session.h"
#include "tsl/profiler/protobuf/profiler_options.pb.h"
#include "tsl/profiler/protobuf/xplane.pb.h"
#include "xla/backends/profiler/plugin/profiler_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

struct PLUGIN_Profiler_Error {
  absl::Status status;
};

// One trace: Start begins it, Stop ends it and keeps its events.
struct PLUGIN_Profiler {
  tensorflow::ProfileOptions options;
  std::unique_ptr<tsl::ProfilerSession> session;
  std::string trace;
};

namespace pw::pjrt_cpu {
namespace {

PLUGIN_Profiler_Error* ToError(absl::Status status) {
  return status.ok() ? nullptr : new PLUGIN_Profiler_Error{std::move(status)};
}

PLUGIN_Profiler_Error* Create(PLUGIN_Profiler_Create_Args* args) {
  auto profiler = std::make_unique<PLUGIN_Profiler>();
  if (!profiler->options.ParseFromString(absl::string_view(args->options, args->options_size))) {
    return ToError(absl::InvalidArgumentError("the profiler's options are not a serialized ProfileOptions"));
  }
  args->profiler = profiler.release();
  return nullptr;
}

PLUGIN_Profiler_Error* Start(PLUGIN_Profiler_Start_Args* args) {
  args->profiler->session = tsl::ProfilerSession::Create(args->profiler->options);
  return ToError(args->profiler->session->Status());
}

PLUGIN_Profiler_Error* Stop(PLUGIN_Profiler_Stop_Args* args) {
  std::unique_ptr<tsl::ProfilerSession> session = std::move(args->profiler->session);
  if (session == nullptr) return nullptr;
  tensorflow::profiler::XSpace space;
  if (absl::Status status = session->CollectData(&space); !status.ok()) return ToError(std::move(status));
  for (auto& plane : *space.mutable_planes()) {
    if (plane.name() == "/host:CPU") plane.set_name("/host:pjrt_cpu");  // the host process has its own plane of that name
  }
  args->profiler->trace = space.SerializeAsString();
  return nullptr;
}

// Copies the trace into the host's buffer. If the host passes none, returns ours, which lives as long as the profiler.
PLUGIN_Profiler_Error* Collect(PLUGIN_Profiler_CollectData_Args* args) {
  std::string& trace = args->profiler->trace;
  auto* const bytes = reinterpret_cast<uint8_t*>(trace.data());
  if (args->buffer == nullptr) {
    args->buffer = bytes;
  } else if (args->buffer != bytes) {
    std::memcpy(args->buffer, bytes, trace.size());
  }
  args->buffer_size_in_bytes = trace.size();
  return nullptr;
}

PLUGIN_Profiler_Api MakeProfilerApi() {
  PLUGIN_Profiler_Api api{};
  api.struct_size = PLUGIN_Profiler_Api_STRUCT_SIZE;
  api.error_destroy = [](PLUGIN_Profiler_Error_Destroy_Args* args) { delete args->error; };
  api.error_message = [](PLUGIN_Profiler_Error_Message_Args* args) {
    args->message = args->error->status.message().data();
    args->message_size = args->error->status.message().size();
  };
  api.error_get_code = [](PLUGIN_Profiler_Error_GetCode_Args* args) -> PLUGIN_Profiler_Error* {
    args->code = static_cast<int>(args->error->status.code());
    return nullptr;
  };
  api.create = Create;
  api.destroy = [](PLUGIN_Profiler_Destroy_Args* args) -> PLUGIN_Profiler_Error* {
    delete args->profiler;
    return nullptr;
  };
  api.start = Start;
  api.stop = Stop;
  api.collect_data = Collect;
  return api;
}

}  // namespace

PJRT_Extension_Base* ProfilerExtension() {
  static PLUGIN_Profiler_Api api = MakeProfilerApi();
  static PJRT_Profiler_Extension extension = {
      {PJRT_Profiler_Extension_STRUCT_SIZE, PJRT_Extension_Type_Profiler, nullptr}, &api, /*traceme_context_id=*/0};
  return &extension.base;
}

}  // namespace pw::pjrt_cpu
