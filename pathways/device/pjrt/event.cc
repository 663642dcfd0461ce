#include "pathways/device/pjrt/event.h"

#include <memory>
#include <mutex>
#include <utility>

namespace pw::device::pjrt {
namespace {

struct Waiter {
  const Api* api;
  PJRT_Event* event;
  absl::AnyInvocable<void(absl::Status) &&> callback;
};

void Destroy(const Api& api, PJRT_Event* event) {
  PW_PJRT_ARGS(args, PJRT_Event_Destroy_Args);
  args.event = event;
  api.TakeError(api->PJRT_Event_Destroy(&args)).IgnoreError();
}

// Returns whether the event is ready, and then its status; the event is destroyed.
bool TakeIfReady(const Api& api, PJRT_Event* event, absl::Status* status) {
  PW_PJRT_ARGS(ready, PJRT_Event_IsReady_Args);
  ready.event = event;
  if (!api.Has(&PJRT_Api::PJRT_Event_Error)) return false;
  if (!api.Call(&PJRT_Api::PJRT_Event_IsReady, &ready).ok() || !ready.is_ready) return false;
  PW_PJRT_ARGS(error, PJRT_Event_Error_Args);
  error.event = event;
  *status = api.Call(&PJRT_Api::PJRT_Event_Error, &error);
  Destroy(api, event);
  return true;
}

void Fire(PJRT_Error* error, void* user_arg) {
  std::unique_ptr<Waiter> waiter(static_cast<Waiter*>(user_arg));
  absl::Status status = waiter->api->TakeError(error);
  Destroy(*waiter->api, waiter->event);
  std::move(waiter->callback)(std::move(status));
}

// Sets one promise after several events.
class Join {
 public:
  explicit Join(size_t events) : left_(events) {}
  Future<Unit> future() const { return promise_.future(); }

  void Arrived(absl::Status status) {
    std::unique_lock<std::mutex> lock(mu_);
    if (status_.ok()) status_ = std::move(status);
    if (--left_ != 0) return;
    lock.unlock();
    if (status_.ok()) {
      promise_.Set(Unit{});
    } else {
      promise_.Set(status_);
    }
  }

 private:
  std::mutex mu_;
  size_t left_;          // guarded by mu_
  absl::Status status_;  // guarded by mu_ until left_ is 0
  Promise<Unit> promise_;
};

}  // namespace

void WhenReady(const Api& api, PJRT_Event* event, absl::AnyInvocable<void(absl::Status) &&> callback) {
  // Small computations and copies have ended by now.
  if (absl::Status status; TakeIfReady(api, event, &status)) return std::move(callback)(std::move(status));
  auto waiter = std::make_unique<Waiter>(Waiter{&api, event, std::move(callback)});
  PW_PJRT_ARGS(args, PJRT_Event_OnReady_Args);
  args.event = event;
  args.callback = Fire;
  args.user_arg = waiter.get();
  absl::Status status = api.Call(&PJRT_Api::PJRT_Event_OnReady, &args);
  if (status.ok()) {
    waiter.release();  // Fire owns it
    return;
  }
  Destroy(api, event);
  std::move(waiter->callback)(std::move(status));
}

Future<Unit> JoinEvents(const Api& api, absl::Span<PJRT_Event* const> events) {
  if (events.empty()) return Future<Unit>::Ready(Unit{});
  if (absl::Status status; events.size() == 1 && TakeIfReady(api, events[0], &status))
    return Future<Unit>::Ready(status.ok() ? absl::StatusOr<Unit>(Unit{}) : std::move(status));
  auto join = std::make_shared<Join>(events.size());
  Future<Unit> future = join->future();
  for (PJRT_Event* event : events) {
    WhenReady(api, event, [join](absl::Status status) { join->Arrived(std::move(status)); });
  }
  return future;
}

}  // namespace pw::device::pjrt
