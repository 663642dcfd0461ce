// Staged bytes: what clients send ahead of, or behind, the requests that name it; and what fetches leave for them to pick up.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session_impl.h"
#include "pathways/controller/wire_status.h"

namespace pw::controller {

absl::Status SessionImpl::StoreHostBuffer(Handle handle, Bytes data) {
  if (handle == 0) return absl::InvalidArgumentError("handle 0 cannot name a host buffer");
  if (auto it = awaited_.find(handle); it != awaited_.end()) {
    Awaited awaited = std::move(it->second);
    awaited_.erase(it);
    DeliverAwaited(std::move(awaited), data);
    return absl::OkStatus();
  }
  if (staged_.contains(handle) || filling_.contains(handle)) {
    return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " exists already"));
  }
  const int64_t size = static_cast<int64_t>(data.size());
  const int64_t waiting = staged_bytes_ + static_cast<int64_t>(fabric_->queued_bytes(id_));
  if (size > fabric_->limits().staged_bytes - waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host buffer ", handle, " of ", size, " bytes does not fit: this client has ", waiting,
                     " bytes waiting in the controller, the limit is ", fabric_->limits().staged_bytes));
  }
  if (static_cast<int64_t>(staged_.size()) >= fabric_->limits().handles) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", staged_.size(), " host buffers waiting in the controller"));
  }
  staged_bytes_ += size;
  staged_.insert({handle, std::move(data)});
  return absl::OkStatus();
}

void SessionImpl::DeliverAwaited(Awaited awaited, const Bytes& data) {
  const auto array = awaited.array.lock();
  if (awaited.cell != nullptr) return awaited.cell->Fill(data);
  absl::Status error;  // also for an array that is gone: what was computed from it may live, and waits for the data
  if (static_cast<int64_t>(data.size()) != awaited.bytes) {
    error = absl::InvalidArgumentError(
        absl::StrCat("a host buffer of ", data.size(), " bytes came for an array that needs ", awaited.bytes));
    if (array != nullptr) array->Poison(error);
  }
  if (array != nullptr && data.size() <= kChunkBytes) fabric_->gangs().Arrived(array->id());  // the bytes go before what follows
  for (HostId host : awaited.hosts) {
    if (error.ok()) {
      if (!data.empty()) fabric_->SendBytes(host, id_, awaited.transfer, data, awaited.hosts.size() == 1);
      continue;
    }
    ::pathways::v1::Command command;
    command.mutable_abort_transfer()->set_transfer(awaited.transfer);
    command.mutable_abort_transfer()->set_session(id_.v);
    ToProto(error, command.mutable_abort_transfer()->mutable_status());
    fabric_->outbox().Add(host, std::move(command));
  }
}

absl::StatusOr<Bytes> SessionImpl::TakeStaged(Handle handle) {
  auto it = staged_.find(handle);
  if (it == staged_.end()) return UnknownHandle("host buffer", handle);
  Bytes data = std::move(it->second);
  staged_.erase(it);
  staged_bytes_ -= static_cast<int64_t>(data.size());
  return data;
}

void SessionImpl::LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) {
  if (auto it = staged_.find(handle); it != staged_.end()) return Answer<Bytes>(std::move(done), it->second);
  auto it = filling_.find(handle);
  if (it == filling_.end() || it->second.dropped) return Answer<Bytes>(std::move(done), UnknownHandle("host buffer", handle));
  it->second.lookups.push_back(std::move(done));
}

absl::Status SessionImpl::DeleteHostBuffer(Handle handle) {
  if (auto it = filling_.find(handle); it != filling_.end() && !it->second.dropped) {
    it->second.dropped = true;
    return absl::OkStatus();
  }
  return TakeStaged(handle).status();
}

void SessionImpl::OnFetched(Handle host_buffer, absl::StatusOr<Bytes> result) {
  auto it = filling_.find(host_buffer);
  if (it == filling_.end()) return;
  Filling filling = std::move(it->second);
  filling_.erase(it);
  if (result.ok() && !filling.dropped) {
    staged_bytes_ += static_cast<int64_t>(result->size());
    staged_.insert({host_buffer, *result});
  }
  AnswerFilling(std::move(filling), result);
}

void SessionImpl::AnswerFilling(Filling filling, const absl::StatusOr<Bytes>& result) {
  Answer(std::move(filling.done), result.status());
  for (auto& lookup : filling.lookups) Answer<Bytes>(std::move(lookup), result);
}

}  // namespace pw::controller
