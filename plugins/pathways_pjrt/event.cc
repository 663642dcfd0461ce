// Events: a future, and for events that the host creates also the promise.
#include <memory>
#include <utility>

#include "pathways/base/threads/await.h"
#include "plugins/pathways_pjrt/handles.h"

namespace pw::pathways_pjrt {

PJRT_Event* NewEvent(Future<Unit> future) {
  auto* event = new PJRT_Event;
  event->future = std::move(future);
  return event;
}

namespace {

PJRT_Error* CreateEvent(PJRT_Event_Create_Args* args) {
  auto promise = std::make_unique<Promise<Unit>>();
  args->event = NewEvent(promise->future());
  args->event->promise = std::move(promise);
  return nullptr;
}

PJRT_Error* SetEvent(PJRT_Event_Set_Args* args) {
  std::unique_ptr<Promise<Unit>> promise;
  {
    std::lock_guard<std::mutex> lock(args->event->mu);
    promise = std::move(args->event->promise);
  }
  if (promise == nullptr) {
    return NewError(
        absl::FailedPreconditionError("PJRT_Event_Set: the event was set before, or was not made by PJRT_Event_Create"));
  }
  absl::Status status = StatusOf(args->error_code, args->error_message, args->error_message_size);
  promise->Set(status.ok() ? absl::StatusOr<Unit>(Unit()) : absl::StatusOr<Unit>(std::move(status)));
  return nullptr;
}

}  // namespace

void FillEventEntries(PJRT_Api* api) {
  api->PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  api->PJRT_Event_IsReady = [](PJRT_Event_IsReady_Args* args) -> PJRT_Error* {
    args->is_ready = args->event->future.ready();
    return nullptr;
  };
  api->PJRT_Event_Error = [](PJRT_Event_Error_Args* args) -> PJRT_Error* {
    if (!args->event->future.ready()) {
      return NewError(absl::FailedPreconditionError("PJRT_Event_Error: the event is not ready yet; await it first"));
    }
    return NewError(args->event->future.value().status());
  };
  api->PJRT_Event_Await = [](PJRT_Event_Await_Args* args) -> PJRT_Error* {
    return NewError(Await(args->event->future).status());
  };
  api->PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) -> PJRT_Error* {
    args->event->future.OnReady([callback = args->callback, user_arg = args->user_arg](const absl::StatusOr<Unit>& value) {
      callback(NewError(value.status()), user_arg);
    });
    return nullptr;
  };
  api->PJRT_Event_Create = CreateEvent;
  api->PJRT_Event_Set = SetEvent;
}

}  // namespace pw::pathways_pjrt
