#include "pathways/controller/arrays/staging_admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::controller {
namespace {

constexpr int64_t kWaits = -1;

}  // namespace

absl::Status StagingAdmission::Check(Handle handle, int64_t bytes) const {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("a host buffer of ", bytes, " bytes was announced"));
  if (bytes > limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host buffer ", handle, " has ", bytes, " bytes, and the controller keeps at most ", limit_,
                     " of one client on their way to the devices: cut the array into smaller shards, or ", kRaiseStagedLimit));
  }
  if (!announced_.contains(handle)) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " is being received already"));
}

void StagingAdmission::Announce(Handle handle, int64_t bytes, StatusCallback admitted) {
  announced_[handle] = kWaits;
  waiting_.push_back({handle, bytes, std::move(admitted)});
}

bool StagingAdmission::End(Handle handle) {
  auto it = announced_.find(handle);
  if (it == announced_.end() || it->second == kWaits) return false;
  receiving_bytes_ -= it->second;
  announced_.erase(it);
  return true;
}

StatusCallback StagingAdmission::Take(std::deque<Waiting>::iterator it) {
  StatusCallback admitted = std::move(it->admitted);
  announced_[it->handle] = it->bytes;
  receiving_bytes_ += it->bytes;
  waiting_.erase(it);
  return admitted;
}

std::vector<StatusCallback> StagingAdmission::Admit(const Held& held, absl::FunctionRef<bool(Handle)> needed) {
  std::vector<StatusCallback> admitted;
  const int64_t besides = held.unasked + held.queued;
  while (!waiting_.empty() && waiting_.front().bytes <= limit_ - besides - receiving_bytes_) {
    admitted.push_back(Take(waiting_.begin()));
  }
  if (Stalled(held)) {
    auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return needed(waiting.handle); });
    if (it != waiting_.end()) admitted.push_back(Take(it));
  }
  for (auto it = waiting_.rbegin(); it != waiting_.rend() && !it->counted; ++it) {
    it->counted = true;
    ++held_back_;
  }
  if (!admitted.empty()) peak_bytes_ = std::max(peak_bytes_, besides + receiving_bytes_);
  return admitted;
}

StatusCallback StagingAdmission::FailFirst() {
  StatusCallback failed = std::move(waiting_.front().admitted);
  announced_.erase(waiting_.front().handle);
  waiting_.pop_front();
  return failed;
}

std::vector<StatusCallback> StagingAdmission::DropAll() {
  std::vector<StatusCallback> dropped;
  while (!waiting_.empty()) dropped.push_back(FailFirst());
  return dropped;
}

}  // namespace pw::controller
