#include "pathways/device/pjrt/runtime.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/buffer.h"
#include "pathways/device/pjrt/client.h"
#include "pathways/device/pjrt/compile_options.h"
#include "pathways/device/pjrt/host_callback.h"
#include "pathways/device/pjrt/launcher.h"
#include "pathways/device/pjrt/processes.h"
#include "pathways/device/pjrt/profiler.h"
#include "pathways/device/pjrt/program.h"

namespace pw::device::pjrt {
namespace {

class Runtime : public DeviceRuntime {
 public:
  Runtime(std::shared_ptr<const Client> client, absl::StatusOr<std::shared_ptr<HostCallbacks>> callbacks,
          const RuntimeOptions& options)
      : client_(std::move(client)), callbacks_(std::move(callbacks)), launcher_(options.launch_at_once, options.launches) {
    for (const Device& device : client_->devices()) devices_.push_back(device.info);
  }

  const RuntimeInfo& info() const override { return client_->info(); }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> FromHost(HostArray array, int device, absl::string_view memory_kind) override {
    return BufferFromHost(client_, std::move(array), device, memory_kind);
  }

  absl::StatusOr<std::shared_ptr<LoadedProgram>> Compile(const CompileRequest& request) override {
    PW_ASSIGN_OR_RETURN(const std::string options, PlaceOptions(request, *client_));
    PW_ASSIGN_OR_RETURN(std::shared_ptr<HostCallbacks> callbacks, CallbacksFor(request));
    PW_PJRT_ARGS(program, PJRT_Program);
    const std::string renamed = request.host_callbacks ? WithXlaNames(request.program) : std::string();
    const absl::string_view code = request.host_callbacks ? absl::string_view(renamed) : absl::string_view(request.program);
    program.code = const_cast<char*>(code.data());
    program.code_size = code.size();
    program.format = request.format.data();
    program.format_size = request.format.size();
    PW_PJRT_ARGS(args, PJRT_Client_Compile_Args);
    args.client = client_->handle();
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Client_Compile, &args));
    return Program::Wrap(client_, &launcher_, args.executable, request.devices, std::move(callbacks));
  }

  absl::StatusOr<std::shared_ptr<LoadedProgram>> Load(const std::string& serialized, const CompileRequest& request) override {
    PW_ASSIGN_OR_RETURN(const std::string options, PlaceOptions(request, *client_));
    PW_ASSIGN_OR_RETURN(std::shared_ptr<HostCallbacks> callbacks, CallbacksFor(request));
    PW_PJRT_ARGS(args, PJRT_Executable_DeserializeAndLoad_Args);
    args.client = client_->handle();
    args.serialized_executable = serialized.data();
    args.serialized_executable_size = serialized.size();
    args.overridden_serialized_compile_options = options.data();
    args.overridden_serialized_compile_options_size = options.size();
    PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Executable_DeserializeAndLoad, &args));
    return Program::Wrap(client_, &launcher_, args.loaded_executable, request.devices, std::move(callbacks));
  }

  absl::StatusOr<MemoryUsage> Memory(int device) override {
    if (device < 0 || device >= static_cast<int>(devices_.size()))
      return absl::InvalidArgumentError(absl::StrCat("no local device ", device));
    PW_PJRT_ARGS(args, PJRT_Device_MemoryStats_Args);
    args.device = client_->devices()[device].handle;
    PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Device_MemoryStats, &args));
    return MemoryUsage{args.bytes_in_use, args.peak_bytes_in_use_is_set ? args.peak_bytes_in_use : 0,
                       args.bytes_limit_is_set ? args.bytes_limit : 0};
  }

  void AbortLaunch(int launch_id, const absl::Status& why) override {
    PW_PJRT_ARGS(args, PJRT_Device_PoisonExecution_Args);
    args.device = client_->devices().front().handle;
    args.launch_id = launch_id;
    args.error_code = static_cast<PJRT_Error_Code>(why.code());
    args.error_message = why.message().data();
    args.error_message_size = why.message().size();
    client_->api().Call(&PJRT_Api::PJRT_Device_PoisonExecution, &args).IgnoreError();
  }

  void LoseProcess(const std::string& process, const absl::Status& why) override { client_->LoseProcess(process, why); }

  absl::StatusOr<std::unique_ptr<RuntimeProfile>> StartProfile() override { return pjrt::StartProfile(client_); }

  void SetHostCallHandler(HostCallHandler handler) override {
    if (callbacks_.ok()) (*callbacks_)->SetHandler(std::move(handler));
  }

 private:
  absl::StatusOr<std::shared_ptr<HostCallbacks>> CallbacksFor(const CompileRequest& request) const {
    if (!request.host_callbacks) return std::shared_ptr<HostCallbacks>();
    return callbacks_;
  }

  const std::shared_ptr<const Client> client_;
  const absl::StatusOr<std::shared_ptr<HostCallbacks>> callbacks_;  // or the reason why there are none
  std::vector<DeviceInfo> devices_;
  Launcher launcher_;  // last member: its tasks use the others
};

std::unique_ptr<Processes> ProcessesOf(const RuntimeOptions& options) {
  if (options.world.has_value()) return std::make_unique<WorldProcesses>(*options.world);
  return std::make_unique<NamedProcesses>(options.other_processes);
}

// Adds a remedy to the error of NVIDIA's plugin where it sees no GPU: its own text does not say what is missing.
absl::Status WithRemedy(const absl::Status& error, absl::string_view plugin) {
  if (!absl::StrContains(plugin, "xla_cuda_plugin.so")) return error;
  return absl::Status(error.code(),
                      absl::StrCat(absl::StripSuffix(error.message(), "."),
                                   ": it needs a GPU that NVIDIA's driver shows to this process ('nvidia-smi' lists those)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeRuntime(const RuntimeOptions& options) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<const Api> api, Api::Load(options.plugin));
  absl::StatusOr<std::shared_ptr<const Client>> client = Client::Create(std::move(api), options.options, ProcessesOf(options));
  if (!client.ok()) return WithRemedy(client.status(), options.plugin);
  absl::StatusOr<std::shared_ptr<HostCallbacks>> callbacks = HostCallbacks::Register(*client);
  return std::make_unique<Runtime>(*std::move(client), std::move(callbacks), options);
}

}  // namespace pw::device::pjrt
