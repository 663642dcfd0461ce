#include "pathways/worker/store/outbox.h"

#include <optional>
#include <utility>

#include "pathways/base/request_name.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/session/wire.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {
constexpr int kBatchEvents = 512;
constexpr size_t kBatchPayload = 1 << 20;
}  // namespace

pathways::v1::Status ToProto(const absl::Status& status) {
  pathways::v1::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  if (const std::optional<HostId> host = UnreachableHost(status)) proto.set_unreachable_host(host->v);
  return proto;
}

absl::Status FromProto(const pathways::v1::Status& status) { return session::StatusFrom(status); }

pathways::v1::Event* Outbox::Add(std::vector<Bytes> payload) {
  if (batch_.events_size() >= kBatchEvents || payload_bytes_ >= kBatchPayload) Flush();
  for (Bytes& piece : payload) {
    payload_bytes_ += piece.size();
    if (!piece.empty()) payload_.push_back(std::move(piece));
  }
  return batch_.add_events();
}

// Times are sent only if one of them is not 0: then one for each op, starting with the first.
void Outbox::AddOk(v1::Done* done, uint64_t op, double device_microseconds) {
  done->add_ok(op);
  if (device_microseconds == 0 && done->device_microseconds_size() == 0) return;
  done->mutable_device_microseconds()->Resize(done->ok_size(), 0);
  done->set_device_microseconds(done->ok_size() - 1, static_cast<float>(device_microseconds));
}

void Outbox::Done(uint64_t op, const absl::Status& status, double device_microseconds) {
  if (op == 0) return;  // no report requested
  if ((op & kLocalOp) != 0) return local_(op, status, device_microseconds);
  // Under steady load the strand never runs empty; completions must not wait for it.
  if (done_.ok_size() + done_.failed_size() + joint_.ok_size() >= kBatchEvents) Flush();
  const bool joint = other_way_ != nullptr && IsJointOp(op) && op != poisoned_op_;
  if (status.ok()) {
    had_->Done(op, device_microseconds);
    return AddOk(joint ? &joint_ : &done_, op, device_microseconds);
  }
  auto* failed = done_.add_failed();
  failed->set_op(op);
  *failed->mutable_status() = ToProto(status);
  had_->Failed(*failed);
}

void Outbox::Poisoned(uint64_t op, const absl::Status& status, const std::vector<uint32_t>& results) {
  poisoned_op_ = op;
  auto* poisoned = done_.add_poisoned();
  poisoned->set_op(op);
  *poisoned->mutable_status() = ToProto(status);
  poisoned->mutable_results()->Add(results.begin(), results.end());
  had_->AddPoisoned(*poisoned);
}

void Outbox::DoneTimed(uint64_t op, double microseconds, double device_microseconds) {
  had_->Done(op, device_microseconds, microseconds);
  AddTimed(op, microseconds, device_microseconds);
}

void Outbox::DoneAgain(uint64_t op) {
  const HadCommands::Entry* const had = had_->Ended(HadCommands::Kind::kOp, op);
  if (had == nullptr) return;
  if (had->answer != nullptr) {
    *Add() = had->answer->event;
  } else if (had->timed.has_value()) {
    AddTimed(op, *had->timed, had->device_microseconds);
  } else {
    AddOk(&done_, op, had->device_microseconds);
  }
}

void Outbox::AddTimed(uint64_t op, double microseconds, double device_microseconds) {
  AddOk(&done_, op, device_microseconds);
  auto* timed = done_.add_timed();
  timed->set_op(op);
  timed->set_device_microseconds(microseconds);
}

void Outbox::FlushJoint() {
  if (joint_.ok_size() == 0) return;
  v1::Done joint;
  joint.Swap(&joint_);
  if (other_way_ == nullptr || !other_way_(&joint)) *batch_.add_events()->mutable_done() = std::move(joint);
}

void Outbox::Flush() {
  FlushJoint();
  if (done_.ok_size() + done_.failed_size() > 0) *batch_.add_events()->mutable_done() = std::move(done_);
  done_.Clear();
  if (batch_.events_size() == 0) return;
  sink_->Send(batch_.SerializeAsString(), std::move(payload_), net::Lane::kUrgent);
  batch_.Clear();
  payload_.clear();
  payload_bytes_ = 0;
}

void Outbox::SendChunk(uint64_t transfer, uint64_t offset, uint64_t total, Bytes piece) {
  pathways::v1::FromWorker message;
  auto* chunk = message.add_events()->mutable_chunk();
  chunk->set_transfer(transfer);
  chunk->set_offset(offset);
  chunk->set_total_bytes(total);
  chunk->set_payload_bytes(piece.size());
  std::vector<Bytes> payload;
  payload.push_back(std::move(piece));
  sink_->Send(message.SerializeAsString(), std::move(payload), net::Lane::kBulk);
}

}  // namespace pw::worker
