#include "pathways/worker/transfer/staging.h"

#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/worker/store/memory_ledger.h"

namespace pw::worker {
namespace v1 = pathways::v1;
namespace {

constexpr int64_t kShare = 3;  // SG-2

}  // namespace

void Staging::AddChunk(const v1::Chunk& chunk, Bytes payload, HostId source) {
  if (buried_.contains(chunk.transfer())) return;
  Transfer& transfer = transfers_[chunk.transfer()];
  if (transfer.callback == nullptr) transfer.session = SessionOr(chunk.session(), chunk.transfer());
  transfer.source = source;
  if (!transfer.status.ok()) return;  // late chunk of a failed transfer
  absl::Status status = Append(&transfer, chunk, std::move(payload));
  if (!status.ok()) {
    FreeMemory(&transfer);
    transfer.status = std::move(status);
  }
  Deliver(chunk.transfer());
}

absl::Status Staging::SetTotal(Transfer* transfer, int64_t total) {
  if (transfer->total >= 0 && transfer->total != total) {
    return absl::InvalidArgumentError(absl::StrCat("a transfer of ", transfer->total, " bytes was announced as one of ", total));
  }
  if (total < 0) return absl::InvalidArgumentError("a transfer has a negative number of bytes");
  transfer->total = total;
  return absl::OkStatus();
}

absl::Status Staging::Reserve(Transfer* transfer) {
  std::string owner = accounts_->OwnerOf(transfer->session);
  const auto held = staged_by_owner_.find(owner);
  const int64_t own = held == staged_by_owner_.end() ? 0 : held->second;
  const int64_t left = limit_bytes_ - staged_bytes_ - transfer->total;
  if (left < 0 || (own + transfer->total) / kShare > left) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a transfer of ", HumanBytes(transfer->total), " does not fit into host memory: transfers under way take ",
        HumanBytes(staged_bytes_), " of the ", HumanBytes(limit_bytes_), " that this worker sets aside, ", HumanBytes(own),
        " of it for this user, who may have ", kShare, " times what is left. Send less at a time, or raise --staging-limit"));
  }
  transfer->reserved = transfer->total;
  staged_bytes_ += transfer->reserved;
  if (transfer->reserved > 0) staged_by_owner_[owner] += transfer->reserved;
  transfer->reserved_for = std::move(owner);
  return absl::OkStatus();
}

void Staging::Release(Transfer* transfer) {
  const int64_t bytes = std::exchange(transfer->reserved, 0);
  if (bytes == 0) return;
  staged_bytes_ -= bytes;
  const auto held = staged_by_owner_.find(transfer->reserved_for);
  held->second -= bytes;
  if (held->second == 0) staged_by_owner_.erase(held);
}

absl::Status Staging::Append(Transfer* transfer, const v1::Chunk& chunk, Bytes payload) {
  PW_RETURN_IF_ERROR(SetTotal(transfer, static_cast<int64_t>(chunk.total_bytes())));
  if (transfer->complete) return absl::OkStatus();
  if (chunk.offset() > static_cast<uint64_t>(transfer->received) || payload.size() > chunk.total_bytes() - chunk.offset()) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", payload.size(), " bytes at ", chunk.offset(),
                                                   " does not continue a transfer with ", transfer->received, " of ",
                                                   transfer->total, " bytes"));
  }
  const uint64_t repeated = static_cast<uint64_t>(transfer->received) - chunk.offset();
  if (repeated > 0 && repeated >= payload.size()) return absl::OkStatus();
  if (repeated > 0) payload = payload.Slice(repeated, payload.size() - repeated);
  const int64_t size = static_cast<int64_t>(payload.size());
  if (size == transfer->total) {
    if (transfer->callback == nullptr) PW_RETURN_IF_ERROR(Reserve(transfer));  // it may stay for long
    transfer->whole = std::move(payload);
    transfer->received = size;
    transfer->complete = true;
    return absl::OkStatus();
  }
  if (transfer->into == nullptr && !transfer->memory.has_value()) {
    PW_RETURN_IF_ERROR(Reserve(transfer));
    transfer->memory = blocks_->Take(static_cast<size_t>(transfer->total));
    if (!transfer->memory.has_value()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("this worker's machine has no memory for a transfer of ", HumanBytes(transfer->total)));
    }
  }
  uint8_t* const memory = transfer->into != nullptr ? transfer->into : transfer->memory->data();
  if (payload.data() != memory + transfer->received) std::memcpy(memory + transfer->received, payload.data(), payload.size());
  transfer->received += size;
  transfer->complete = transfer->received == transfer->total;
  return absl::OkStatus();
}

void Staging::Expect(uint64_t id, int64_t total_bytes, SessionId session, HostId source, Callback callback, uint8_t* into) {
  Transfer& transfer = transfers_[id];
  if (transfer.callback != nullptr) {
    return std::move(callback)(absl::InvalidArgumentError(absl::StrCat("transfer ", id, " is already expected")));
  }
  transfer.session = session;
  transfer.source = source;
  transfer.callback = std::move(callback);
  if (transfer.received == 0) transfer.into = into;
  absl::Status status = SetTotal(&transfer, total_bytes);
  if (transfer.status.ok() && !status.ok()) transfer.status = std::move(status);
  Deliver(id);
}

void Staging::Deliver(uint64_t id) {
  auto it = transfers_.find(id);
  if (it == transfers_.end() || it->second.callback == nullptr || (!it->second.complete && it->second.status.ok())) return;
  Transfer transfer = std::move(it->second);
  transfers_.erase(it);
  absl::StatusOr<Bytes> result = Bytes();
  if (!transfer.status.ok())
    result = transfer.status;
  else if (transfer.into != nullptr && transfer.whole.empty())
    result = Bytes(nullptr, transfer.into, static_cast<size_t>(transfer.total));
  else
    result = transfer.memory.has_value() ? std::move(*transfer.memory).Freeze() : std::move(transfer.whole);
  Release(&transfer);  // now the receiver's memory
  if (!transfer.complete) Bury(id);
  std::move(transfer.callback)(std::move(result));
}

void Staging::FreeMemory(Transfer* transfer) {
  Release(transfer);
  transfer->memory.reset();
  transfer->into = nullptr;
  transfer->whole = Bytes();
}

void Staging::Bury(uint64_t id) {
  constexpr size_t kRemembered = 4096;
  if (!buried_.insert(id).second) return;
  buried_order_.push_back(id);
  if (buried_order_.size() <= kRemembered) return;
  buried_.erase(buried_order_.front());
  buried_order_.pop_front();
}

void Staging::Fail(uint64_t id, const absl::Status& status, SessionId session) {
  auto [it, is_new] = transfers_.try_emplace(id);
  Transfer& transfer = it->second;
  if (is_new) transfer.session = session;
  if (transfer.complete || !transfer.status.ok()) return;
  FreeMemory(&transfer);
  transfer.status = status;
  Deliver(id);
}

void Staging::FailIf(absl::FunctionRef<bool(const Transfer&)> which, const absl::Status& status) {
  for (uint64_t id : SortedKeysWhere(transfers_, which)) Fail(id, status);
}

void Staging::FailSource(HostId source, const absl::Status& status) {
  FailIf([source](const Transfer& t) { return t.source == source; }, status);
}

bool Staging::Awaits(HostId source) const {
  return absl::c_any_of(
      transfers_, [source](const auto& entry) { return entry.second.source == source && entry.second.callback != nullptr; });
}

void Staging::ReleaseOwner(SessionId session, const absl::Status& status) {
  FailIf([session](const Transfer& t) { return t.session == session && t.callback != nullptr; }, status);
  for (Transfer& t : TakeWhere(transfers_, [session](const Transfer& of) { return of.session == session; })) FreeMemory(&t);
}

}  // namespace pw::worker
