#include "pathways/device/pjrt/cell.h"

namespace pw::device::pjrt {

Cell::~Cell() {
  if (!handle_.has_value() || !handle_->ok()) return;
  PW_PJRT_ARGS(args, PJRT_Buffer_Destroy_Args);
  args.buffer = **handle_;
  client_->api().Call(&PJRT_Api::PJRT_Buffer_Destroy, &args).IgnoreError();
}

void Cell::Set(Handle handle) {
  std::vector<Callback> waiters;
  {
    std::lock_guard<std::mutex> lock(mu_);
    handle_.emplace(std::move(handle));
    waiters.swap(waiters_);
  }
  for (Callback& waiter : waiters) std::move(waiter)(*handle_);
}

void Cell::WhenSet(Callback callback) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!handle_.has_value()) return waiters_.push_back(std::move(callback));
  }
  std::move(callback)(*handle_);
}

}  // namespace pw::device::pjrt
