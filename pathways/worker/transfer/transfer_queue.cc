#include "pathways/worker/transfer/transfer_queue.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/crc32c.h"
#include "pathways/base/request_name.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kHandedOverBytes = 1 << 30;  // the largest payload of a frame
constexpr size_t kRemembered = 1024;          // latest transfers of a link, which may be lost with it

// States the chunk's session, unless its transfer names it.
void SetSession(uint64_t transfer, SessionId session, v1::Chunk* chunk) {
  if (SessionOfName(transfer) != session) chunk->set_session(session.v);
}

}  // namespace

TransferQueue::TransferQueue(const WorkerContext* context, const HostMemory* host_memory, std::function<void(HostId)> connect)
    : context_(context), host_memory_(host_memory), connect_(std::move(connect)) {}

bool TransferQueue::TakesShared(HostId host) const {
  auto it = peers_.find(host);
  return it != peers_.end() && it->second.takes_shared;
}

// ---- sending

void TransferQueue::Send(HostId to, uint64_t transfer, SessionId session, Bytes data, Sent sent) {
  Queue(to, {transfer, session, std::move(data), 0, absl::OkStatus(), std::move(sent)});
}

void TransferQueue::SendFailed(HostId to, uint64_t transfer, const absl::Status& status) {
  Queue(to, {transfer, SessionId(), Bytes(), 0, status, [](const absl::Status&) {}});
}

void TransferQueue::Queue(HostId to, Item item) {
  auto it = peers_.find(to);
  if (it == peers_.end())
    return std::move(item.sent)(UnreachableHostError(to, absl::StrCat(context_->NameOf(to), " is not in the cluster")));
  it->second.queue.push_back(std::move(item));
  if (it->second.link != nullptr) return Pump(to);
  connect_(to);
}

void TransferQueue::Add(HostId host, bool takes_shared) { peers_[host].takes_shared = takes_shared && host_memory_->shares(); }

void TransferQueue::Connected(HostId host, net::FrameSink* link) {
  Peer& peer = peers_[host];
  peer.link = link;
  for (uint64_t transfer : std::exchange(peer.on_the_way, {})) {
    Item lost{transfer,
              SessionId(),
              Bytes(),
              0,
              absl::UnavailableError(
                  absl::StrCat("the connection from ", context_->NameOf(context_->self()), " broke during the transfer")),
              [](const absl::Status&) {}};
    peer.queue.push_front(std::move(lost));
  }
  Pump(host);
}

// Sends everything on the bulk lane, so that frames arrive in the order of the transfers.
void TransferQueue::Pump(HostId to) {
  auto it = peers_.find(to);
  if (it == peers_.end() || it->second.link == nullptr) return;
  Peer& peer = it->second;
  std::vector<Sent> sent;
  while (!peer.queue.empty() && peer.link->CanSendBulk()) {
    Item& item = peer.queue.front();
    if (item.failed.ok() && peer.takes_shared && net::NameOf(item.data).has_value()) {
      Lend(&peer, std::move(item));
      peer.queue.pop_front();
      continue;
    }
    SendPiece(&peer, &item);
    if (item.failed.ok() && item.offset < item.data.size()) continue;
    if (item.failed.ok()) peer.on_the_way.push_back(item.transfer);
    if (peer.on_the_way.size() > kRemembered) peer.on_the_way.pop_front();
    sent.push_back(std::move(item.sent));
    peer.queue.pop_front();
  }
  for (Sent& callback : sent) std::move(callback)(absl::OkStatus());
}

// Sends the next chunk, or the failure.
void TransferQueue::SendPiece(Peer* peer, Item* item) {
  v1::PeerMessage message;
  std::vector<Bytes> payload;
  if (!item->failed.ok()) {
    message.mutable_failed()->set_transfer(item->transfer);
    *message.mutable_failed()->mutable_status() = ToProto(item->failed);
  } else {
    const size_t size =
        std::min(host_memory_->peers_in_process() ? kHandedOverBytes : kChunkBytes, item->data.size() - item->offset);
    v1::Chunk* chunk = message.mutable_chunk();
    chunk->set_transfer(item->transfer);
    chunk->set_offset(item->offset);
    chunk->set_total_bytes(item->data.size());
    chunk->set_payload_bytes(size);
    SetSession(item->transfer, item->session, chunk);
    if (size > 0) payload.push_back(item->data.Slice(item->offset, size));
    if (checksum_) chunk->set_crc32c(Crc32c(item->data.view().substr(item->offset, size)));
    item->offset += size;
  }
  peer->link->Send(message.SerializeAsString(), std::move(payload), net::Lane::kBulk);
}

void TransferQueue::Lend(Peer* peer, Item item) {
  v1::PeerMessage message;
  v1::Chunk* chunk = message.mutable_chunk();
  chunk->set_transfer(item.transfer);
  chunk->set_total_bytes(item.data.size());
  SetSession(item.transfer, item.session, chunk);
  if (checksum_) chunk->set_crc32c(Crc32c(item.data.view()));
  net::WriteName(*net::NameOf(item.data), chunk->mutable_shared());
  peer->link->Send(message.SerializeAsString(), net::Lane::kBulk);
  peer->on_the_way.push_back(item.transfer);
  if (peer->on_the_way.size() > kRemembered) peer->on_the_way.pop_front();
  peer->unopened.Add(item.transfer, item.session, std::move(item.data),
                     [sent = std::move(item.sent)]() mutable { std::move(sent)(absl::OkStatus()); });
}

void TransferQueue::Returned(HostId to, const v1::SharedTaken& taken) {
  for (uint64_t transfer : taken.transfers()) {
    auto it = peers_.find(to);  // find again: the callback of a returned transfer may have changed the map
    if (it != peers_.end()) it->second.unopened.Return(transfer);
  }
}

void TransferQueue::Broken(HostId host, const absl::Status& status) {
  Peer& peer = peers_[host];
  peer.link = nullptr;
  FailAll(&peer, status);
}

void TransferQueue::Remove(HostId host, const absl::Status& status) {
  auto gone = peers_.extract(host);  // first, because callbacks may ask whether the host is known
  if (!gone.empty()) FailAll(&gone.mapped(), status);
  if (receiver_ != nullptr) receiver_->OnPeerLost(host, status);
}

void TransferQueue::FailAll(Peer* peer, const absl::Status& status) {
  std::deque<Item> queue;
  queue.swap(peer->queue);
  // The receiver may have opened the lent memory. It learns separately of the lost link (on_the_way). Here the send has ended.
  for (auto& [transfer, returned] : peer->unopened.DropAll()) std::move(returned)();
  for (Item& item : queue) {
    // The other side may wait for the transfer. It is told when there is another link.
    peer->on_the_way.push_back(item.transfer);
    std::move(item.sent)(status);
  }
  while (peer->on_the_way.size() > kRemembered) peer->on_the_way.pop_front();
}

// ---- receiving

absl::Status TransferQueue::OnChunk(HostId from, net::FrameSink* link, const v1::Chunk& chunk, Bytes payload) {
  if (chunk.has_shared()) return TakeShared(from, link, chunk);
  if (chunk.payload_bytes() != payload.size())
    return absl::InvalidArgumentError("a chunk's announced size differs from its frame's");
  if (!context_->ended(SessionOr(chunk.session(), chunk.transfer()))) Deliver(from, chunk, std::move(payload));
  return absl::OkStatus();
}

absl::Status TransferQueue::TakeShared(HostId from, net::FrameSink* link, const v1::Chunk& chunk) {
  absl::StatusOr<Bytes> shared = net::OpenShared(net::ReadName(chunk.shared()), chunk.exclusive());
  v1::PeerMessage answer;
  answer.mutable_taken()->add_transfers(chunk.transfer());
  link->Send(answer.SerializeAsString(), net::Lane::kBulk);
  if (context_->ended(SessionOr(chunk.session(), chunk.transfer()))) return absl::OkStatus();
  if (shared.ok())
    Deliver(from, chunk, *std::move(shared));
  else
    receiver_->OnTransferFailed(from, chunk.transfer(), shared.status());
  return absl::OkStatus();
}

void TransferQueue::Deliver(HostId from, const v1::Chunk& chunk, Bytes bytes) {
  if (!chunk.has_crc32c() || chunk.crc32c() == Crc32c(bytes.view())) return receiver_->OnChunk(from, chunk, std::move(bytes));
  receiver_->OnTransferFailed(
      from, chunk.transfer(),
      absl::DataLossError(absl::StrCat(
          "bytes that ", context_->NameOf(from), " sent to ", context_->NameOf(context_->self()),
          " were damaged on the way: ", bytes.size(), " bytes at ", chunk.offset(), " of a transfer of ", chunk.total_bytes(),
          " do not match their checksum. Compute the array again; if this recurs, look at the network and ",
          "the memory of both hosts")));
}

void TransferQueue::OnFailed(HostId from, const v1::TransferFailed& failed) {
  receiver_->OnTransferFailed(from, failed.transfer(), FromProto(failed.status()));
}

void TransferQueue::IncomingLost(HostId host, const absl::Status& status) {
  if (receiver_ != nullptr) receiver_->OnPeerLost(host, status);
}

}  // namespace pw::worker
