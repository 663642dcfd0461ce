#include "pathways/controller/session/arrays/host_buffer_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::controller {

namespace {

// A client's stores may wait for room while no request names the bytes that it has sent. Its first waiting store fails after this
// time.
constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

HostBufferStore::HostBufferStore(SessionContext* context)
    : context_(context), fabric_(context->fabric()), admission_(fabric_->limits().staged_bytes) {
  fabric_->outgoing().Watch(context_->id(), [this] { Admit(); });
}

StagingAdmission::Held HostBufferStore::HeldBytes() const { return {unasked_bytes_, fabric_->outgoing().bytes(context_->id())}; }

int64_t HostBufferStore::bytes() const {
  const StagingAdmission::Held held = HeldBytes();
  return admission_.receiving_bytes() + held.unasked + held.queued + fetched_bytes_;
}

void HostBufferStore::Admit() {
  if (admission_.waiting() == 0) return;
  auto admitted = admission_.Admit(HeldBytes(), [this](Handle handle) { return awaited_.contains(handle); });
  if (!admitted.empty()) stalled_since_.reset();
  for (auto& callback : admitted) context_->Answer(std::move(callback), absl::OkStatus());
}

void HostBufferStore::OnTick(absl::Time now, bool idle) {
  if (idle || !admission_.Stalled(HeldBytes())) return stalled_since_.reset();
  if (!stalled_since_.has_value()) stalled_since_ = now;
  if (now - *stalled_since_ < kPatience) return;
  context_->Answer(admission_.FailFirst(),
                   absl::ResourceExhaustedError(
                       absl::StrCat("this client has sent ", unasked_bytes_,
                                    " bytes of host buffers and no request for them, and waits for room for more, for ",
                                    absl::FormatDuration(kPatience), "; the controller keeps at most ", admission_.limit(),
                                    " of one client: put the arrays one after another, or ", kRaiseStagedLimit)));
}

absl::Status HostBufferStore::CheckStore(Handle handle) const {
  if (handle == 0) return absl::InvalidArgumentError("handle 0 cannot name a host buffer");
  if (staged_.contains(handle) || filling_.contains(handle)) {
    return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " exists already"));
  }
  if (awaited_.contains(handle) || static_cast<int64_t>(staged_.size()) < fabric_->limits().handles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this client has ", staged_.size(), " host buffers waiting in the controller"));
}

void HostBufferStore::Announce(Handle handle, int64_t bytes, StatusCallback admitted) {
  absl::Status status = CheckStore(handle);
  if (status.ok()) status = admission_.Check(handle, bytes);
  if (!status.ok()) return context_->Answer(std::move(admitted), status);
  admission_.Announce(handle, bytes, std::move(admitted));
  Admit();
}

void HostBufferStore::Forget(Handle handle) {
  admission_.End(handle);
  Admit();
}

void HostBufferStore::Fail(Handle handle, absl::Status error) {
  admission_.End(handle);
  if (auto it = awaited_.find(handle); it != awaited_.end()) {
    AwaitedBuffer awaited = std::move(it->second);
    awaited_.erase(it);
    Deliver(std::move(awaited), error);
  } else if (CheckStore(handle).ok()) {
    staged_.insert({handle, {Bytes(), false, std::move(error)}});
  }
  Admit();
}

absl::Status HostBufferStore::Store(Handle handle, Bytes data) {
  const bool announced = admission_.End(handle);
  fabric_->CountArrayBytes(data.size());
  const absl::Status status = TryStore(handle, std::move(data), announced);
  Admit();
  return status;
}

absl::Status HostBufferStore::TryStore(Handle handle, Bytes data, bool announced) {
  PW_RETURN_IF_ERROR(CheckStore(handle));
  if (auto it = awaited_.find(handle); it != awaited_.end()) {
    AwaitedBuffer awaited = std::move(it->second);
    awaited_.erase(it);
    Deliver(std::move(awaited), data);
    return absl::OkStatus();
  }
  const int64_t size = static_cast<int64_t>(data.size());
  if (!announced && size > admission_.limit() - unasked_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("host buffer ", handle, " of ", size,
                                                     " bytes does not fit: this client has ", unasked_bytes_,
                                                     " bytes waiting in the controller, the limit is ", admission_.limit()));
  }
  unasked_bytes_ += size;
  staged_.insert({handle, {std::move(data), false}});
  return absl::OkStatus();
}

void HostBufferStore::Deliver(AwaitedBuffer awaited, const absl::StatusOr<Bytes>& data) {
  if (awaited.cell != nullptr) return awaited.cell->Fill(data);
  if (!data.ok()) return Abort(awaited, data.status());
  if (static_cast<int64_t>(data->size()) != awaited.bytes) {
    return Abort(awaited, absl::InvalidArgumentError(absl::StrCat("a host buffer of ", data->size(),
                                                                  " bytes came for an array that needs ", awaited.bytes)));
  }
  const auto array = awaited.array.lock();
  if (array != nullptr && data->size() <= kChunkBytes)
    fabric_->gangs().Arrived(array->id());  // the bytes go before later commands
  if (data->empty()) return;
  for (HostId host : awaited.hosts) fabric_->SendBytes(host, context_->id(), awaited.transfer, *data, awaited.hosts.size() == 1);
}

// Also called for an array that has been deleted: results computed from it may live, and wait for the data.
void HostBufferStore::Abort(const AwaitedBuffer& awaited, const absl::Status& error) {
  if (const auto array = awaited.array.lock()) {
    array->Poison(error);
    fabric_->gangs().Arrived(array->id());
  }
  for (HostId host : awaited.hosts) {
    ::pathways::v1::Command command;
    command.mutable_abort_transfer()->set_transfer(awaited.transfer);
    command.mutable_abort_transfer()->set_session(context_->id().v);
    session::ToProto(error, command.mutable_abort_transfer()->mutable_status());
    fabric_->outbox().Add(host, std::move(command));
  }
}

absl::StatusOr<Bytes> HostBufferStore::Take(Handle handle) {
  auto it = staged_.find(handle);
  if (it == staged_.end()) return UnknownHandle("host buffer", handle);
  StagedBuffer staged = std::move(it->second);
  staged_.erase(it);
  (staged.fetched ? fetched_bytes_ : unasked_bytes_) -= static_cast<int64_t>(staged.data.size());
  stalled_since_.reset();
  if (!staged.error.ok()) return staged.error;
  return std::move(staged.data);
}

const StagedBuffer* HostBufferStore::FindStaged(Handle handle) const {
  const auto found = staged_.find(handle);
  return found == staged_.end() ? nullptr : &found->second;
}

void HostBufferStore::Discard(Handle handle) {
  if (handle == 0 || filling_.contains(handle) || awaited_.contains(handle)) return;
  if (!staged_.contains(handle)) {
    awaited_[handle] = AwaitedBuffer{};
  } else {
    Take(handle).IgnoreError();
  }
}

void HostBufferStore::Lookup(Handle handle, ResultCallback<Bytes> done) {
  if (auto it = staged_.find(handle); it != staged_.end()) {
    const StagedBuffer& staged = it->second;
    return context_->Answer<Bytes>(std::move(done), staged.error.ok() ? absl::StatusOr<Bytes>(staged.data) : staged.error);
  }
  auto it = filling_.find(handle);
  if (it == filling_.end() || it->second.dropped)
    return context_->Answer<Bytes>(std::move(done), UnknownHandle("host buffer", handle));
  it->second.lookups.push_back(std::move(done));
}

absl::Status HostBufferStore::Delete(Handle handle) {
  if (auto it = filling_.find(handle); it != filling_.end() && !it->second.dropped) {
    it->second.dropped = true;
    return absl::OkStatus();
  }
  if (!staged_.contains(handle)) return UnknownHandle("host buffer", handle);
  Take(handle).IgnoreError();
  Admit();
  return absl::OkStatus();
}

absl::Status HostBufferStore::CheckFill(Handle handle, int64_t bytes) const {
  if (handle == 0 || staged_.contains(handle) || filling_.contains(handle) || awaited_.contains(handle)) {
    return absl::AlreadyExistsError(absl::StrCat("host buffer ", handle, " exists already, or is 0"));
  }
  if (bytes <= fabric_->limits().staged_bytes - fetched_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("host buffer ", handle, " of ", bytes, " bytes does not fit: ", fetched_bytes_,
                   " bytes wait in the controller for this client to pick them up, the limit is ", fabric_->limits().staged_bytes,
                   ": let go of arrays that were read, read smaller pieces, or ", kRaiseStagedLimit));
}

void HostBufferStore::EndFill(Handle handle, absl::StatusOr<Bytes> result) {
  auto it = filling_.find(handle);
  if (it == filling_.end()) return;
  FillingBuffer filling = std::move(it->second);
  filling_.erase(it);
  if (result.ok() && !filling.dropped) {
    fetched_bytes_ += static_cast<int64_t>(result->size());
    staged_.insert({handle, {*result, true}});
  }
  AnswerFilling(std::move(filling), result);
}

void HostBufferStore::EndAdmissions(const absl::Status& error) {
  for (auto& admitted : admission_.DropAll()) context_->Answer(std::move(admitted), error);
}

void HostBufferStore::EndFills(const absl::Status& error) {
  for (auto& [handle, filling] : std::exchange(filling_, {})) AnswerFilling(std::move(filling), error);
}

void HostBufferStore::AnswerFilling(FillingBuffer filling, const absl::StatusOr<Bytes>& result) {
  context_->Answer(std::move(filling.done), result.status());
  for (auto& lookup : filling.lookups) context_->Answer<Bytes>(std::move(lookup), result);
}

}  // namespace pw::controller
