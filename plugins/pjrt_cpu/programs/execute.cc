// Execution.
//
// Three measures keep concurrent collectives from deadlocking XLA:CPU (README.md, traps). The client admits 65,536 computations
// in flight. Every launch on all devices of this process gets its own id here; only a program over several processes uses the
// host's id. All devices see the launches in one order (launch_mu). XLA runs the launches of a device one after another and has a
// thread for each device, so the earliest launch always makes progress on all its devices.
//
// A launch is passed to its devices one by one. XLA's own Execute for several devices passes each device to its own thread, waits
// for all of them and never overlaps two launches, with or without collectives. That costs eight times as much for a small
// program, and half as much again for one with collectives. Small programs with collectives go further: their launches are fibers
// of the calling thread that meet in our all-reduces (fibers.h, all_reduce.h), so no other thread is woken.
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "plugins/pjrt_cpu/handles.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_execute_options.h"
#include "xla/runtime/device_id.h"

namespace pw::pjrt_cpu {
namespace {

// XLA keys the rendezvous of a launch's collectives by this number. Zero means "none" to a host, so it is never used.
int NextLaunchId() {
  static std::atomic<uint32_t> next{1};
  const int id = static_cast<int>(next.fetch_add(1, std::memory_order_relaxed) & (kSpanningLaunch - 1));
  return id == 0 ? NextLaunchId() : id;
}

absl::Status ReadOptions(const PJRT_LoadedExecutable_Execute_Args& args, xla::ExecuteOptions& options) {
  const PJRT_ExecuteOptions& from = *args.options;
  if (from.num_send_ops != 0 || from.num_recv_ops != 0) {
    return absl::UnimplementedError("XLA:CPU has no host send and receive; use a custom call for host callbacks");
  }
  for (size_t i = 0; i < from.num_non_donatable_input_indices; ++i) {
    options.non_donatable_input_indices.insert(static_cast<int>(from.non_donatable_input_indices[i]));
  }
  if (from.context != nullptr) options.context = from.context->context.get();
  if (PW_HAS_FIELD(&from, call_location) && from.call_location != nullptr) options.call_location = from.call_location;
  if (PW_HAS_FIELD(&from, incarnation_ids)) {
    for (size_t i = 0; i < from.num_tasks; ++i) {
      options.incarnations.insert({from.task_ids[i], xla::IncarnationId(from.incarnation_ids[i])});
    }
  }
  if (args.executable->spans) {
    if (from.launch_id == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "executable '", args.executable->facts->name,
          "' runs in several processes: each launch needs a launch_id that no other has, and that is the same in all of them"));
    }
    options.launch_id = from.launch_id | kSpanningLaunch;
    options.execution_mode = xla::ExecuteOptions::ExecutionMode::kAsynchronous;
    return absl::OkStatus();
  }
  // A launch on one device is part of a larger launch that only the host knows; a launch on all devices is complete.
  options.launch_id = args.execute_device != nullptr && from.launch_id != 0 ? from.launch_id : NextLaunchId();
  options.execution_mode = args.executable->run_inline ? xla::ExecuteOptions::ExecutionMode::kDefault
                                                       : xla::ExecuteOptions::ExecutionMode::kAsynchronous;
  return absl::OkStatus();
}

using Results = std::vector<std::unique_ptr<xla::PjRtBuffer>>;

// Moves results to the memories that the program specifies: XLA leaves every result in the device's default memory. The move,
// like the program, is only enqueued here.
absl::Status MoveToMemory(const ProgramFacts& facts, Results& results) {
  for (size_t i : facts.results_elsewhere) {
    absl::StatusOr<xla::PjRtMemorySpace*> space = results[i]->device()->memory_space_by_kind(facts.output_kinds[i]);
    if (!space.ok()) return space.status();
    if (results[i]->memory_space() == *space) continue;
    absl::StatusOr<std::unique_ptr<xla::PjRtBuffer>> moved = results[i]->CopyToMemorySpace(*space);
    if (!moved.ok()) return moved.status();
    results[i] = *std::move(moved);
  }
  return absl::OkStatus();
}

void ReturnResults(PJRT_LoadedExecutable* executable, Results results, bool filled, PJRT_Buffer** out) {
  const std::vector<int64_t>& bytes = executable->facts->output_bytes;
  for (size_t i = 0; i < results.size(); ++i) {
    out[i] = WrapBuffer(executable->client, std::move(results[i]), bytes[i]);
    out[i]->filled.store(filled, std::memory_order_relaxed);
  }
}

bool IsFilled(PJRT_Buffer& buffer) {
  if (buffer.filled.load(std::memory_order_relaxed)) return true;
  xla::Future<> ready = buffer.buffer->GetReadyFuture();
  if (!ready.IsReady() || !ready.Await().ok()) return false;
  buffer.filled.store(true, std::memory_order_relaxed);
  return true;
}

// Returns whether the launch can use fibers. All must arrive at their collectives: a fiber with a failed or missing argument
// would not.
bool MayTakeTurns(const PJRT_LoadedExecutable_Execute_Args& args) {
  if (!args.executable->take_turns || Fibers::InFiber()) return false;
  for (size_t d = 0; d < args.num_devices; ++d) {
    for (size_t i = 0; i < args.num_args; ++i) {
      if (!IsFilled(*args.argument_lists[d][i])) return false;
    }
  }
  return true;
}

// Stops counting donated arguments, which are gone as soon as the launch is enqueued.
void UncountDonated(const PJRT_LoadedExecutable_Execute_Args& args) {
  for (int parameter : args.executable->facts->donatable_inputs) {
    if (static_cast<size_t>(parameter) >= args.num_args) continue;
    for (size_t d = 0; d < args.num_devices; ++d) {
      PJRT_Buffer* buffer = args.argument_lists[d][parameter];
      if (buffer->buffer->IsDeleted()) buffer->Uncount();
    }
  }
}

std::vector<xla::PjRtBuffer*> Arguments(const PJRT_LoadedExecutable_Execute_Args& args, size_t device) {
  std::vector<xla::PjRtBuffer*> result;
  result.reserve(args.num_args);
  for (size_t i = 0; i < args.num_args; ++i) result.push_back(args.argument_lists[device][i]->buffer.get());
  return result;
}

PJRT_Error* ExecuteOnOne(PJRT_LoadedExecutable_Execute_Args* args, const xla::PjRtLoadedExecutable& executable,
                         const xla::ExecuteOptions& options) {
  if (args->num_devices != 1) {
    return MakeError(absl::InvalidArgumentError(
        absl::StrCat("execute_device is set, so there must be one list of arguments, not ", args->num_devices)));
  }
  std::optional<xla::Future<>> done;
  const bool want_done = args->device_complete_events != nullptr;
  const std::vector<xla::PjRtBuffer*> arguments = Arguments(*args, 0);
  xla::PjRtDevice* device = args->execute_device->device;
  PW_ASSIGN_OR_RETURN(Results results, args->executable->portable
                                           ? executable.ExecutePortable(arguments, device, options, done, want_done)
                                           : executable.ExecuteSharded(arguments, device, options, done, want_done));
  PW_RETURN_IF_ERROR(MoveToMemory(*args->executable->facts, results));
  ReturnResults(args->executable, std::move(results), /*filled=*/false, args->output_lists[0]);
  if (want_done) args->device_complete_events[0] = WrapFuture(*std::move(done));
  return nullptr;
}

// Checks that the arguments of device number d have the types and dimensions of device 0's, are on d, and are not deleted. XLA
// checks whether device 0's fit the program before any device runs. A refusal on a later device would leave the earlier ones
// waiting in a collective.
absl::Status CheckArguments(const PJRT_LoadedExecutable_Execute_Args& args, size_t d) {
  const auto wrong = [&](size_t i, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", i, " of executable '", args.executable->facts->name, "' for its device number ", d, " ", why));
  };
  const PJRT_Device* device = args.executable->addressable_devices[d];
  for (size_t i = 0; i < args.num_args; ++i) {
    const PJRT_Buffer& buffer = *args.argument_lists[d][i];
    if (buffer.device != device) {
      return wrong(i, absl::StrCat("is on ", buffer.device->device->DebugString(), ", not on ", device->device->DebugString()));
    }
    if (buffer.buffer->IsDeleted()) return wrong(i, "was deleted or donated");
    const xla::Shape& shape = buffer.buffer->on_device_shape();
    const xla::Shape& first = args.argument_lists[0][i]->buffer->on_device_shape();
    if (shape.element_type() != first.element_type() || (shape.IsArray() && shape.dimensions() != first.dimensions())) {
      return wrong(i, absl::StrCat("is ", shape.ToString(), ", and ", first.ToString(), " for its first device"));
    }
  }
  return absl::OkStatus();
}

// Launches on every device, in order; returns the first error, if any.
absl::Status Launch(const PJRT_LoadedExecutable_Execute_Args& args, const xla::PjRtLoadedExecutable& executable,
                    xla::ExecuteOptions& options, bool in_turns, bool want_done, std::vector<Results>& results,
                    std::vector<std::optional<xla::Future<>>>& done) {
  const std::vector<PJRT_Device*>& devices = args.executable->addressable_devices;
  absl::Status status;
  const auto launch = [&](size_t d) {
    absl::StatusOr<Results> result =
        executable.ExecuteSharded(Arguments(args, d), devices[d]->device, options, done[d], want_done);
    if (result.ok()) results[d] = *std::move(result);
    if (status.ok()) status = result.status();
    return result.ok();
  };
  PJRT_Client* client = args.executable->client;
  absl::MutexLock lock(&client->launch_mu);  // so that no other launch takes arguments that have been checked
  for (size_t d = 0; devices.size() > 1 && d < devices.size(); ++d) {
    if (absl::Status right = CheckArguments(args, d); !right.ok()) return right;
  }
  if (in_turns) {
    options.execution_mode = xla::ExecuteOptions::ExecutionMode::kSynchronous;
    client->fibers.Run(devices.size(), launch);
    return status;
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    if (!launch(d)) break;
  }
  return status;
}

// If a device of a launch that spans processes fails, aborts the launch, so that no other device in any process waits for it.
void AbortIfFailed(const PJRT_LoadedExecutable& executable, int launch, const std::vector<std::optional<xla::Future<>>>& done) {
  for (const std::optional<xla::Future<>>& device : done) {
    if (!device.has_value()) continue;
    device->OnReady([network = executable.client->network, launch](const absl::Status& status) {
      if (!status.ok()) network->wire()->Abort(launch, status);
    });
  }
}

PJRT_Error* ExecuteOnAll(PJRT_LoadedExecutable_Execute_Args* args, const xla::PjRtLoadedExecutable& executable,
                         xla::ExecuteOptions& options) {
  const std::vector<PJRT_Device*>& devices = args->executable->addressable_devices;
  if (args->num_devices != devices.size()) {
    return MakeError(absl::InvalidArgumentError(absl::StrCat(
        "the program runs on ", devices.size(), " devices here, but there are ", args->num_devices, " lists of arguments")));
  }
  const bool want_done = args->device_complete_events != nullptr;
  std::vector<Results> results(devices.size());
  std::vector<std::optional<xla::Future<>>> done(devices.size());
  const bool in_turns = MayTakeTurns(*args);
  const bool spans = args->executable->spans;
  const absl::Status launched = Launch(*args, executable, options, in_turns, want_done || spans, results, done);
  if (spans && !launched.ok()) args->executable->client->network->wire()->Abort(options.launch_id, launched);
  if (spans) AbortIfFailed(*args->executable, options.launch_id, done);
  PW_RETURN_IF_ERROR(launched);
  for (size_t d = 0; d < devices.size(); ++d) {
    PW_RETURN_IF_ERROR(MoveToMemory(*args->executable->facts, results[d]));
    const bool filled = in_turns && want_done && done[d]->IsReady() && done[d]->Await().ok();
    ReturnResults(args->executable, std::move(results[d]), filled, args->output_lists[d]);
    if (want_done) args->device_complete_events[d] = WrapFuture(*std::move(done[d]));
  }
  return nullptr;
}

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const std::shared_ptr<xla::PjRtLoadedExecutable> executable = args->executable->get();
  if (executable == nullptr) {
    return MakeError(absl::FailedPreconditionError(
        absl::StrCat("executable '", args->executable->facts->name, "' was deleted; compile it again to run it")));
  }
  xla::ExecuteOptions options;
  PW_RETURN_IF_ERROR(ReadOptions(*args, options));
  PJRT_Error* error =
      args->execute_device != nullptr ? ExecuteOnOne(args, *executable, options) : ExecuteOnAll(args, *executable, options);
  UncountDonated(*args);
  return error;
}

}  // namespace

void FillExecuteEntries(PJRT_Api* api) {
  api->PJRT_LoadedExecutable_Execute = Execute;
  api->PJRT_ExecuteContext_Create = [](PJRT_ExecuteContext_Create_Args* args) -> PJRT_Error* {
    args->context = new PJRT_ExecuteContext{std::make_unique<xla::CpuExecuteContext>()};
    return nullptr;
  };
  api->PJRT_ExecuteContext_Destroy = [](PJRT_ExecuteContext_Destroy_Args* args) -> PJRT_Error* {
    delete args->context;
    return nullptr;
  };
}

}  // namespace pw::pjrt_cpu
