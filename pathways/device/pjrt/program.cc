#include "pathways/device/pjrt/program.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/buffer.h"
#include "pathways/device/pjrt/event.h"
#include "pathways/device/pjrt/program_info.h"

namespace pw::device::pjrt {

// A queued launch.
struct Program::Order {
  std::vector<std::shared_ptr<Cell>> arguments;
  std::vector<std::shared_ptr<Cell>> results;
  std::vector<int64_t> non_donatable;
  int launch_id = 0;
  SessionId session;
  Promise<Unit> done;
};

absl::StatusOr<std::shared_ptr<LoadedProgram>> Program::Wrap(std::shared_ptr<const Client> client, Launcher* launcher,
                                                             PJRT_LoadedExecutable* loaded, const std::vector<int>& devices,
                                                             std::shared_ptr<HostCallbacks> callbacks) {
  std::shared_ptr<Program> program(new Program(std::move(client), launcher, loaded, std::move(callbacks)));
  PW_RETURN_IF_ERROR(program->Read(devices));
  return program;
}

absl::Status Program::Read(const std::vector<int>& devices) {
  PW_PJRT_ARGS(args, PJRT_LoadedExecutable_GetExecutable_Args);
  args.loaded_executable = loaded_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable, &args));
  executable_ = args.executable;
  PW_ASSIGN_OR_RETURN(info_, ReadProgramInfo(*client_, loaded_, executable_));
  if (info_.devices != devices) {
    return absl::InternalError("the device plugin loaded a program for other devices than those it was asked for");
  }
  return absl::OkStatus();
}

Program::~Program() {
  PW_PJRT_ARGS(executable, PJRT_Executable_Destroy_Args);
  executable.executable = executable_;
  if (executable_ != nullptr) client_->api().Call(&PJRT_Api::PJRT_Executable_Destroy, &executable).IgnoreError();
  PW_PJRT_ARGS(loaded, PJRT_LoadedExecutable_Destroy_Args);
  loaded.executable = loaded_;
  client_->api().Call(&PJRT_Api::PJRT_LoadedExecutable_Destroy, &loaded).IgnoreError();
}

absl::StatusOr<Launch> Program::Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) {
  const size_t devices = info_.devices.size();
  const size_t results = info_.outputs.size();
  const size_t num_args = arguments.size() / devices;
  if (num_args * devices != arguments.size() || (num_args != info_.parameters.size() && !info_.parameters.empty())) {
    return absl::InvalidArgumentError(absl::StrCat("program '", info_.name, "' takes ", info_.parameters.size(),
                                                   " arguments on each of ", devices, " devices, not ", arguments.size(),
                                                   " in all"));
  }
  auto order = std::make_unique<Order>();
  order->arguments.reserve(arguments.size());
  for (DeviceBuffer* argument : arguments) order->arguments.push_back(static_cast<Buffer*>(argument)->cell());
  order->non_donatable = options.non_donatable;
  order->launch_id = options.launch_id;
  order->session = options.session;
  Launch launch;
  launch.done = order->done.future();
  launch.outputs.reserve(devices * results);
  order->results.reserve(devices * results);
  for (size_t i = 0; i < devices * results; ++i) {
    const ValueInfo& value = info_.outputs[i % results];
    order->results.push_back(std::make_shared<Cell>(client_));
    launch.outputs.push_back(
        std::make_unique<Buffer>(order->results.back(), value.dtype, value.dims, info_.devices[i / results], value.memory_kind));
  }
  const std::shared_ptr<Launches>& launches = launcher_->launches();
  if (launches != nullptr) launches->Begin();
  launcher_->Launch(callbacks_ != nullptr, [self = shared_from_this(), order = std::move(order)] { self->Carry(*order); });
  if (launches != nullptr) launch.done.OnReady([launches](const absl::StatusOr<Unit>&) { launches->End(); });
  return launch;
}

// If the launch fails, its results get the error.
void Program::Carry(Order& order) {
  absl::Status status = Enqueue(order);
  if (status.ok()) return;
  for (const std::shared_ptr<Cell>& result : order.results) result->Set(status);
  order.done.Set(std::move(status));
}

absl::Status Program::Enqueue(Order& order) {
  const size_t devices = info_.devices.size();
  const size_t results = info_.outputs.size();
  const size_t num_args = order.arguments.size() / devices;
  // The same inline size for all: g++ 12 merges the equal code of vectors of pointers, then warns about the smaller ones.
  constexpr size_t kInlined = 32;
  absl::InlinedVector<PJRT_Buffer*, kInlined> handles;
  for (const std::shared_ptr<Cell>& argument : order.arguments) {
    PW_ASSIGN_OR_RETURN(PJRT_Buffer * handle, argument->handle());  // set: its launch came earlier
    handles.push_back(handle);
  }
  absl::InlinedVector<PJRT_Buffer*, kInlined> outputs(devices * results);
  absl::InlinedVector<PJRT_Buffer* const*, kInlined> argument_lists;
  absl::InlinedVector<PJRT_Buffer**, kInlined> output_lists;
  for (size_t d = 0; d < devices; ++d) {
    argument_lists.push_back(handles.data() + d * num_args);
    output_lists.push_back(outputs.data() + d * results);
  }
  absl::InlinedVector<PJRT_Event*, kInlined> events(devices);
  std::shared_ptr<CallContext> context;
  if (callbacks_ != nullptr) {
    PW_ASSIGN_OR_RETURN(context, callbacks_->MakeContext(order.session));
  }

  PW_PJRT_ARGS(execute_options, PJRT_ExecuteOptions);
  execute_options.launch_id = order.launch_id;
  execute_options.non_donatable_input_indices = order.non_donatable.data();
  execute_options.num_non_donatable_input_indices = order.non_donatable.size();
  execute_options.context = context == nullptr ? nullptr : context->handle();
  PW_PJRT_ARGS(args, PJRT_LoadedExecutable_Execute_Args);
  args.executable = loaded_;
  args.options = &execute_options;
  args.argument_lists = argument_lists.data();
  args.num_devices = devices;
  args.num_args = num_args;
  args.output_lists = output_lists.data();
  args.device_complete_events = events.data();
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_LoadedExecutable_Execute, &args));

  for (size_t i = 0; i < outputs.size(); ++i) order.results[i]->Set(outputs[i]);
  // The plugin may use the context until the last device is done.
  JoinEvents(client_->api(), events).OnReady([context, done = std::move(order.done)](const absl::StatusOr<Unit>& value) mutable {
    done.Set(value);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::string> Program::Text() {
  // PJRT returns programs only as protocol buffers. Our CPU plugin can also print them, including those of other platforms.
  using Print = char* (*)(const char* module, size_t size, size_t* text_size);
  auto print = reinterpret_cast<Print>(client_->api().FindSymbol("PathwaysHloModuleText"));
  if (print == nullptr)
    return absl::UnimplementedError(absl::StrCat("the device plugin ", client_->api().path(), " cannot print programs"));
  PW_ASSIGN_OR_RETURN(std::string module, OptimizedModule(client_->api(), executable_));
  size_t size = 0;
  char* text = print(module.data(), module.size(), &size);
  if (text == nullptr) return absl::InternalError("the device plugin could not print the optimized program");
  std::string result(text, size);
  free(text);
  return result;
}

absl::StatusOr<std::string> Program::Module() { return OptimizedModuleWithConfig(client_->api(), executable_); }

absl::StatusOr<std::map<std::string, double>> Program::CostAnalysis() {
  PW_PJRT_ARGS(args, PJRT_Executable_GetCostAnalysis_Args);
  args.executable = executable_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Executable_GetCostAnalysis, &args));
  std::map<std::string, double> costs;
  for (size_t i = 0; i < args.num_properties; ++i) {
    const PJRT_NamedValue& value = args.properties[i];
    const std::string name(value.name, value.name_size);
    if (value.type == PJRT_NamedValue_kFloat) costs[name] = value.float_value;
    if (value.type == PJRT_NamedValue_kInt64) costs[name] = static_cast<double>(value.int64_value);
  }
  return costs;
}

absl::StatusOr<std::string> Program::Serialize() {
  PW_PJRT_ARGS(args, PJRT_Executable_Serialize_Args);
  args.executable = executable_;
  PW_RETURN_IF_ERROR(client_->api().Call(&PJRT_Api::PJRT_Executable_Serialize, &args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

}  // namespace pw::device::pjrt
