#include "pathways/device/pjrt/profiler.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"
#include "xla/profiler_options.pb.h"

namespace pw::device::pjrt {
namespace {

// Converts an error of the extension to a status and frees it.
absl::Status TakeProfilerError(const PLUGIN_Profiler_Api& api, PLUGIN_Profiler_Error* error) {
  if (error == nullptr) return absl::OkStatus();
  PW_PJRT_ARGS(message, PLUGIN_Profiler_Error_Message_Args);
  message.error = error;
  api.error_message(&message);
  PW_PJRT_ARGS(code, PLUGIN_Profiler_Error_GetCode_Args);
  code.error = error;
  api.error_get_code(&code);
  absl::Status status(code.code > 0 && code.code <= 16 ? static_cast<absl::StatusCode>(code.code) : absl::StatusCode::kUnknown,
                      absl::string_view(message.message, message.message_size));
  PW_PJRT_ARGS(destroy, PLUGIN_Profiler_Error_Destroy_Args);
  destroy.error = error;
  api.error_destroy(&destroy);
  return status;
}

std::string DefaultOptions() {
  tensorflow::ProfileOptions options;
  options.set_version(1);
  options.set_host_tracer_level(2);
  options.set_device_tracer_level(1);
  options.set_enable_hlo_proto(true);
  return options.SerializeAsString();
}

class PluginProfile final : public RuntimeProfile {
 public:
  PluginProfile(std::shared_ptr<const Client> client, const PLUGIN_Profiler_Api* api, PLUGIN_Profiler* profiler)
      : client_(std::move(client)), api_(*api), profiler_(profiler) {}
  ~PluginProfile() override {
    PW_PJRT_ARGS(args, PLUGIN_Profiler_Destroy_Args);
    args.profiler = profiler_;
    TakeProfilerError(api_, api_.destroy(&args)).IgnoreError();
  }

  absl::Status Start() {
    PW_PJRT_ARGS(args, PLUGIN_Profiler_Start_Args);
    args.profiler = profiler_;
    return TakeProfilerError(api_, api_.start(&args));
  }

  // The first call of collect_data returns the size. A plugin that keeps the bytes also returns their place then, and may have none for a second
  // call. Others copy them into our buffer by the second call.
  absl::StatusOr<std::string> Stop(size_t max_bytes) override {
    PW_PJRT_ARGS(stop, PLUGIN_Profiler_Stop_Args);
    stop.profiler = profiler_;
    PW_RETURN_IF_ERROR(TakeProfilerError(api_, api_.stop(&stop)));
    PW_PJRT_ARGS(collect, PLUGIN_Profiler_CollectData_Args);
    collect.profiler = profiler_;
    PW_RETURN_IF_ERROR(TakeProfilerError(api_, api_.collect_data(&collect)));
    if (collect.buffer_size_in_bytes > max_bytes)
      return absl::ResourceExhaustedError(
          absl::StrCat("the device runtime has recorded ", collect.buffer_size_in_bytes, " bytes"));
    if (collect.buffer != nullptr) return std::string(reinterpret_cast<const char*>(collect.buffer), collect.buffer_size_in_bytes);
    std::string bytes(collect.buffer_size_in_bytes, '\0');
    if (bytes.empty()) return bytes;
    collect.buffer = reinterpret_cast<uint8_t*>(bytes.data());
    PW_RETURN_IF_ERROR(TakeProfilerError(api_, api_.collect_data(&collect)));
    if (collect.buffer_size_in_bytes != bytes.size())
      return absl::InternalError("the device runtime has changed its profile while it was read");
    return bytes;
  }

 private:
  const std::shared_ptr<const Client> client_;
  const PLUGIN_Profiler_Api& api_;
  PLUGIN_Profiler* const profiler_;
};

// Returns whether all functions that are used are there.
bool IsWhole(const PLUGIN_Profiler_Api* api) {
  return api != nullptr && api->struct_size >= PLUGIN_Profiler_Api_STRUCT_SIZE && api->error_destroy != nullptr &&
         api->error_message != nullptr && api->error_get_code != nullptr && api->create != nullptr && api->destroy != nullptr &&
         api->start != nullptr && api->stop != nullptr && api->collect_data != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RuntimeProfile>> StartProfile(std::shared_ptr<const Client> client) {
  const PJRT_Extension_Base* extension = client->api().FindExtension(PJRT_Extension_Type_Profiler);
  const PLUGIN_Profiler_Api* api =
      extension == nullptr ? nullptr : reinterpret_cast<const PJRT_Profiler_Extension*>(extension)->profiler_api;
  if (!IsWhole(api))
    return absl::UnimplementedError(absl::StrCat("the device plugin ", client->api().path(), " records no profile"));
  const std::string options = DefaultOptions();
  PW_PJRT_ARGS(create, PLUGIN_Profiler_Create_Args);
  create.options = options.data();
  create.options_size = options.size();
  PW_RETURN_IF_ERROR(TakeProfilerError(*api, api->create(&create)));
  auto profile = std::make_unique<PluginProfile>(std::move(client), api, create.profiler);
  PW_RETURN_IF_ERROR(profile->Start());
  return profile;
}

}  // namespace pw::device::pjrt
