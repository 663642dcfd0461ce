// Events: a future, and for events that the host creates also the promise.
#include <utility>

#include "plugins/pjrt_cpu/handles.h"

namespace pw::pjrt_cpu {

PJRT_Event* WrapFuture(xla::Future<> future) {
  auto* event = new PJRT_Event;
  event->future = std::move(future);
  return event;
}

namespace {

PJRT_Error* CreateEvent(PJRT_Event_Create_Args* args) {
  auto [promise, future] = xla::MakePromise<>();
  PJRT_Event* event = WrapFuture(std::move(future));
  {
    absl::MutexLock lock(&event->mu);
    event->promise = std::move(promise);
  }
  args->event = event;
  return nullptr;
}

PJRT_Error* SetEvent(PJRT_Event_Set_Args* args) {
  xla::Promise<> promise;
  {
    absl::MutexLock lock(&args->event->mu);
    promise = std::move(args->event->promise);
    args->event->promise = xla::Promise<>();
  }
  if (!promise) {
    return MakeError(
        absl::FailedPreconditionError("PJRT_Event_Set: the event was set before, or was not made by PJRT_Event_Create"));
  }
  promise.Set(MakeStatus(args->error_code, args->error_message, args->error_message_size));
  return nullptr;
}

}  // namespace

void FillEventEntries(PJRT_Api* api) {
  api->PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  api->PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) -> PJRT_Error* {
    args->is_ready = args->event->future.IsReady();
    return nullptr;
  };
  api->PJRT_Event_Error = [](PJRT_Event_Error_Args* args) -> PJRT_Error* {
    if (!args->event->future.IsReady()) {
      return MakeError(absl::FailedPreconditionError("PJRT_Event_Error: the event is not ready yet; await it first"));
    }
    return MakeError(args->event->future.Await());
  };
  api->PJRT_Event_Await = [](PJRT_Event_Await_Args* args) -> PJRT_Error* { return MakeError(args->event->future.Await()); };
  api->PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) -> PJRT_Error* {
    args->event->future.OnReady([callback = args->callback, user_arg = args->user_arg](const absl::Status& status) {
      callback(MakeError(status), user_arg);
    });
    return nullptr;
  };
  api->PJRT_Event_Create = CreateEvent;
  api->PJRT_Event_Set = SetEvent;
}

}  // namespace pw::pjrt_cpu
