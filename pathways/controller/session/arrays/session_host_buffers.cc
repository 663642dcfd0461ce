// Staged bytes: bytes that clients send before or after the requests that name them, and fetched bytes for clients to pick up.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/session_impl.h"
#include "pathways/controller/session/session_publications.h"
#include "pathways/session/wire.h"

namespace pw::controller {

namespace {

// A client's stores may wait for room while no request names the bytes that it has sent. Its first waiting store fails after this
// time.
constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

int64_t SessionImpl::staged_bytes() const {
  const StagingAdmission::Held held = HeldBytes();
  return room_.receiving_bytes() + held.unasked + held.queued + fetched_bytes_;
}

void SessionImpl::AdmitStores() {
  if (room_.waiting() == 0) return;
  auto admitted = room_.Admit(HeldBytes(), [this](Handle handle) { return awaited_.contains(handle); });
  if (!admitted.empty()) stalled_since_.reset();
  for (auto& callback : admitted) Answer(std::move(callback), absl::OkStatus());
}

void SessionImpl::OnTick(absl::Time now, bool slept) {
  publications_->OnTick(now);
  if (slept || suspended_ || !room_.Stalled(HeldBytes())) return stalled_since_.reset();
  if (!stalled_since_.has_value()) stalled_since_ = now;
  if (now - *stalled_since_ < kPatience) return;
  Answer(room_.FailFirst(), absl::ResourceExhaustedError(
                                absl::StrCat("this client has sent ", unasked_bytes_,
                                             " bytes of host buffers and no request for them, and waits for room for more, for ",
                                             absl::FormatDuration(kPatience), "; the controller keeps at most ", room_.limit(),
                                             " of one client: put the arrays one after another, or ", kRaiseStagedLimit)));
}

absl::Status SessionImpl::CheckStore(Handle handle) const {
  if (handle == 0) return absl::InvalidArgumentError("handle 0 cannot name a host buffer");
  if (staged_.contains(handle) || filling_.contains(handle)) {
    return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " exists already"));
  }
  if (awaited_.contains(handle) || static_cast<int64_t>(staged_.size()) < fabric_->limits().handles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this client has ", staged_.size(), " host buffers waiting in the controller"));
}

void SessionImpl::AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) {
  absl::Status status = CheckStore(handle);
  if (status.ok()) status = room_.Check(handle, bytes);
  if (!status.ok()) return Answer(std::move(admitted), status);
  room_.Announce(handle, bytes, std::move(admitted));
  AdmitStores();
}

void SessionImpl::ForgetHostBuffer(Handle handle) {
  room_.End(handle);
  AdmitStores();
}

void SessionImpl::FailHostBuffer(Handle handle, absl::Status error) {
  room_.End(handle);
  if (auto it = awaited_.find(handle); it != awaited_.end()) {
    AwaitedBuffer awaited = std::move(it->second);
    awaited_.erase(it);
    DeliverAwaited(std::move(awaited), error);
  } else if (CheckStore(handle).ok()) {
    staged_.insert({handle, {Bytes(), false, std::move(error)}});
  }
  AdmitStores();
}

absl::Status SessionImpl::StoreHostBuffer(Handle handle, Bytes data) {
  const bool announced = room_.End(handle);
  fabric_->CountArrayBytes(data.size());
  const absl::Status status = Store(handle, std::move(data), announced);
  AdmitStores();
  return status;
}

absl::Status SessionImpl::Store(Handle handle, Bytes data, bool announced) {
  PW_RETURN_IF_ERROR(CheckStore(handle));
  if (auto it = awaited_.find(handle); it != awaited_.end()) {
    AwaitedBuffer awaited = std::move(it->second);
    awaited_.erase(it);
    DeliverAwaited(std::move(awaited), data);
    return absl::OkStatus();
  }
  const int64_t size = static_cast<int64_t>(data.size());
  if (!announced && size > room_.limit() - unasked_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("host buffer ", handle, " of ", size,
                                                     " bytes does not fit: this client has ", unasked_bytes_,
                                                     " bytes waiting in the controller, the limit is ", room_.limit()));
  }
  unasked_bytes_ += size;
  staged_.insert({handle, {std::move(data), false}});
  return absl::OkStatus();
}

void SessionImpl::DeliverAwaited(AwaitedBuffer awaited, const absl::StatusOr<Bytes>& data) {
  if (awaited.cell != nullptr) return awaited.cell->Fill(data);
  if (!data.ok()) return AbortAwaited(awaited, data.status());
  if (static_cast<int64_t>(data->size()) != awaited.bytes) {
    return AbortAwaited(awaited, absl::InvalidArgumentError(absl::StrCat("a host buffer of ", data->size(),
                                                                         " bytes came for an array that needs ", awaited.bytes)));
  }
  const auto array = awaited.array.lock();
  if (array != nullptr && data->size() <= kChunkBytes)
    fabric_->gangs().Arrived(array->id());  // the bytes go before later commands
  if (data->empty()) return;
  for (HostId host : awaited.hosts) fabric_->SendBytes(host, id_, awaited.transfer, *data, awaited.hosts.size() == 1);
}

// Also called for an array that has been deleted: results computed from it may live, and wait for the data.
void SessionImpl::AbortAwaited(const AwaitedBuffer& awaited, const absl::Status& error) {
  if (const auto array = awaited.array.lock()) {
    array->Poison(error);
    fabric_->gangs().Arrived(array->id());
  }
  for (HostId host : awaited.hosts) {
    ::pathways::v1::Command command;
    command.mutable_abort_transfer()->set_transfer(awaited.transfer);
    command.mutable_abort_transfer()->set_session(id_.v);
    session::ToProto(error, command.mutable_abort_transfer()->mutable_status());
    fabric_->outbox().Add(host, std::move(command));
  }
}

absl::StatusOr<Bytes> SessionImpl::TakeStaged(Handle handle) {
  auto it = staged_.find(handle);
  if (it == staged_.end()) return UnknownHandle("host buffer", handle);
  StagedBuffer staged = std::move(it->second);
  staged_.erase(it);
  (staged.fetched ? fetched_bytes_ : unasked_bytes_) -= static_cast<int64_t>(staged.data.size());
  stalled_since_.reset();
  if (!staged.error.ok()) return staged.error;
  return std::move(staged.data);
}

void SessionImpl::LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) {
  if (auto it = staged_.find(handle); it != staged_.end()) {
    const StagedBuffer& staged = it->second;
    return Answer<Bytes>(std::move(done), staged.error.ok() ? absl::StatusOr<Bytes>(staged.data) : staged.error);
  }
  auto it = filling_.find(handle);
  if (it == filling_.end() || it->second.dropped) return Answer<Bytes>(std::move(done), UnknownHandle("host buffer", handle));
  it->second.lookups.push_back(std::move(done));
}

absl::Status SessionImpl::DeleteHostBuffer(Handle handle) {
  if (auto it = filling_.find(handle); it != filling_.end() && !it->second.dropped) {
    it->second.dropped = true;
    return absl::OkStatus();
  }
  if (!staged_.contains(handle)) return UnknownHandle("host buffer", handle);
  TakeStaged(handle).IgnoreError();
  AdmitStores();
  return absl::OkStatus();
}

void SessionImpl::OnFetched(Handle host_buffer, absl::StatusOr<Bytes> result) {
  auto it = filling_.find(host_buffer);
  if (it == filling_.end()) return;
  FillingBuffer filling = std::move(it->second);
  filling_.erase(it);
  if (result.ok() && !filling.dropped) {
    fetched_bytes_ += static_cast<int64_t>(result->size());
    staged_.insert({host_buffer, {*result, true}});
  }
  AnswerFilling(std::move(filling), result);
}

void SessionImpl::AnswerFilling(FillingBuffer filling, const absl::StatusOr<Bytes>& result) {
  Answer(std::move(filling.done), result.status());
  for (auto& lookup : filling.lookups) Answer<Bytes>(std::move(lookup), result);
}

}  // namespace pw::controller
