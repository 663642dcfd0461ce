#include "pathways/buffers/logical_array.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"

namespace pw::buffers {

LogicalArray::LogicalArray(ArrayId id, SessionId owner, std::shared_ptr<const ArraySpec> spec, int completions,
                           Listener* listener)
    : id_(id),
      owner_(owner),
      spec_(std::move(spec)),
      listener_(listener),
      missing_(completions),
      state_(completions == 0 ? State::kReady : State::kPending) {
  PW_CHECK(completions >= 0);
}

LogicalArray::Ref LogicalArray::MakeError(ArrayId id, SessionId owner, std::shared_ptr<const ArraySpec> spec,
                                          absl::Status error) {
  auto array = std::make_shared<LogicalArray>(id, owner, std::move(spec), 0, nullptr);
  array->Poison(error);
  return array;
}

LogicalArray::~LogicalArray() {
  Release();
  auto waiters = std::exchange(waiters_, {});
  if (waiters.empty()) return;
  const absl::Status gone = absl::CancelledError(absl::StrCat(ToString(id_), " was dropped before it was ready"));
  for (Waiter& waiter : waiters) std::move(waiter)(gone);
}

void LogicalArray::Expect(int completions) {
  PW_CHECK(completions >= 0 && state_ != State::kReady);
  missing_ += completions;
}

void LogicalArray::OnDone(const absl::Status& status) {
  PW_CHECK(missing_ > 0);
  --missing_;
  if (settled()) return;
  if (!status.ok()) {
    Settle(State::kError, status);
  } else if (missing_ == 0) {
    Settle(State::kReady, absl::OkStatus());
  }
}

void LogicalArray::Poison(const absl::Status& error) {
  PW_CHECK(!error.ok());
  if (state_ != State::kError) Settle(State::kError, error);
}

bool LogicalArray::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  const std::vector<DeviceId>& devices = spec_->sharding.devices();
  if (std::none_of(devices.begin(), devices.end(), [&](DeviceId d) { return lost.contains(d); })) return false;
  Poison(error);
  return true;
}

void LogicalArray::WhenSettled(Waiter waiter) {
  if (settled()) {
    const absl::Status status = status_;  // the waiter may drop the last reference
    std::move(waiter)(status);
  } else {
    waiters_.push_back(std::move(waiter));
  }
}

void LogicalArray::Delete() {
  deleted_ = true;
  Release();
}

void LogicalArray::Drop(Ref array) {
  if (array != nullptr && array.use_count() == array->watches_ + 1) array->Release();
}

void LogicalArray::Donate() {
  deleted_ = true;
  listener_ = nullptr;
}

void LogicalArray::Settle(State state, absl::Status status) {
  state_ = state;
  status_ = status;
  // A waiter can hold the last reference, so `this` must not be used from here on.
  auto waiters = std::exchange(waiters_, {});
  for (Waiter& waiter : waiters) std::move(waiter)(status);
}

void LogicalArray::Release() {
  if (Listener* listener = std::exchange(listener_, nullptr)) listener->OnReleased(*this);
}

void WhenAllSettled(absl::Span<const LogicalArray::Ref> arrays, LogicalArray::Waiter done) {
  if (arrays.size() == 1) return arrays[0]->WhenSettled(std::move(done));
  struct Shared {
    size_t missing;
    size_t first_error_at;
    absl::Status error;
    LogicalArray::Waiter done;
  };
  // One more than the number of arrays, so that `done` cannot run before the loop has ended.
  auto shared = std::make_shared<Shared>(Shared{arrays.size() + 1, arrays.size(), absl::OkStatus(), std::move(done)});
  auto one = [shared](size_t i, const absl::Status& status) {
    if (!status.ok() && i < shared->first_error_at) {
      shared->first_error_at = i;
      shared->error = status;
    }
    if (--shared->missing == 0) std::move(shared->done)(shared->error);
  };
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i]->WhenSettled([one, i](const absl::Status& status) { one(i, status); });
  }
  one(arrays.size(), absl::OkStatus());
}

}  // namespace pw::buffers
