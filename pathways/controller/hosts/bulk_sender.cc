#include "pathways/controller/hosts/bulk_sender.h"

#include <algorithm>
#include <utility>

#include "pathways/v1/worker.pb.h"

namespace pw::controller {

void BulkSender::Enqueue(SessionId session, uint64_t transfer, Bytes data) {
  queued_bytes_ += data.size();
  queues_[session].push_back({transfer, std::move(data)});
  Pump();
}

void BulkSender::DropSession(SessionId session) {
  auto it = queues_.find(session);
  if (it == queues_.end()) return;
  for (const Transfer& transfer : it->second) queued_bytes_ -= transfer.data.size() - transfer.offset;
  queues_.erase(it);
}

void BulkSender::Pump() {
  while (!queues_.empty() && sink_->CanSendBulk()) {
    auto it = queues_.upper_bound(last_);
    if (it == queues_.end()) it = queues_.begin();
    last_ = it->first;
    SendChunk(it->first, it->second.front());
    if (it->second.front().offset < it->second.front().data.size()) continue;
    const uint64_t transfer = it->second.front().name;
    it->second.pop_front();
    if (it->second.empty()) queues_.erase(it);
    sent_(transfer);
  }
}

void BulkSender::SendChunk(SessionId session, Transfer& transfer) {
  const size_t size = std::min(kChunkBytes, transfer.data.size() - transfer.offset);
  ::pathways::v1::ToWorker message;
  auto& chunk = *message.add_commands()->mutable_chunk();
  chunk.set_transfer(transfer.name);
  chunk.set_offset(transfer.offset);
  chunk.set_total_bytes(transfer.data.size());
  chunk.set_payload_bytes(size);
  chunk.set_session(session.v);
  sink_->Send(message.SerializeAsString(), {transfer.data.Slice(transfer.offset, size)}, net::Lane::kBulk);
  transfer.offset += size;
  queued_bytes_ -= size;
}

}  // namespace pw::controller
