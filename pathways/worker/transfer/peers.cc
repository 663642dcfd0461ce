#include "pathways/worker/transfer/peers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/crc32c.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/shared/unopened_shared_memory.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kHandedOverBytes = 1 << 30;  // the largest payload of a frame
constexpr size_t kRemembered = 1024;          // latest transfers of a connection, which may be lost with it
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

}  // namespace

struct Peers::Outgoing : net::Connection::Handler {
  Outgoing(Peers* peers, HostId host)
      : peers(peers), host(host), strand(peers->context_->strand()), alive(peers->context_->alive()) {}

  // On a thread of the transport.
  void OnFrame(net::Frame frame) override {
    v1::PeerMessage message;
    if (!message.ParseFromString(frame.header) || !message.has_taken()) return;  // no other message in this direction
    Post([taken = message.taken()](Peers* p, HostId host) { p->Returned(host, taken); });
  }
  void OnBulkWritable() override {
    Post([](Peers* p, HostId host) { p->Pump(host); });
  }
  void OnClosed(const absl::Status& reason) override {
    Post([reason](Peers* p, HostId host) { p->OutgoingLost(host, reason); });
  }
  template <class F>
  void Post(F f) {
    strand->Post([peers = peers, host = host, alive = alive, f] {
      if (!alive.expired()) f(peers, host);
    });
  }

  Peers* const peers;
  const HostId host;
  Executor* const strand;
  const std::weak_ptr<bool> alive;
  std::string address;
  bool takes_shared = false;
  net::UnopenedSharedMemory unopened;
  bool connecting = false;
  std::deque<std::pair<std::string, std::vector<Bytes>>> frames;  // waiting for the connection
  std::deque<Item> queue;
  std::deque<uint64_t> on_the_way;  // transfers handed to the current connection, the latest kRemembered of them
  std::unique_ptr<net::Connection> connection;
};

struct Peers::Incoming : net::Connection::Handler {
  Incoming(Peers* peers, uint64_t id)
      : peers(peers), id(id), strand(peers->context_->strand()), alive(peers->context_->alive()) {}

  void OnFrame(net::Frame frame) override {
    auto message = std::make_shared<v1::PeerMessage>();
    if (!message->ParseFromString(frame.header))
      return connection->Close(absl::InvalidArgumentError("another worker sent a message that does not parse"));
    may_land = may_land || (message->has_hello() && message->hello().incarnation() == peers->incarnation_);
    strand->Post([peers = peers, id = id, alive = alive, message, payload = std::move(frame.payload)]() mutable {
      if (!alive.expired()) peers->OnFrame(id, *message, std::move(payload));
    });
  }
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override {
    v1::PeerMessage message;
    if (!may_land || !message.ParseFromString(header) || !message.has_chunk()) return {};
    return peers->receive_buffers_.Take(message.chunk().transfer(), message.chunk().offset(), payload_bytes);
  }
  void OnClosed(const absl::Status& reason) override {
    strand->Post([peers = peers, id = id, alive = alive, reason] {
      if (!alive.expired()) peers->IncomingLost(id, reason);
    });
  }

  Peers* const peers;
  const uint64_t id;
  Executor* const strand;
  const std::weak_ptr<bool> alive;
  bool may_land = false;  // on the transport's thread
  bool greeted = false;
  HostId from;
  std::unique_ptr<net::Connection> connection;
};

Peers::Peers(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport, uint64_t incarnation)
    : context_(context), host_memory_(host_memory), transport_(transport), incarnation_(incarnation) {}
Peers::~Peers() = default;

void Peers::SetPeers(const v1::Peers& peers) {
  std::map<HostId, const v1::Peers::Peer*> now;
  for (const v1::Peers::Peer& peer : peers.peers()) now[HostId(peer.host())] = &peer;
  std::vector<HostId> gone;
  for (const auto& [host, out] : outgoing_) {
    if (now.count(host) == 0) gone.push_back(host);
  }
  for (HostId host : gone) {
    const absl::Status status = UnreachableHostError(host, absl::StrCat(context_->NameOf(host), " has left the cluster"));
    std::unique_ptr<Outgoing> out = std::move(outgoing_[host]);
    outgoing_.erase(host);
    FailQueue(out.get(), status);
    if (receiver_ != nullptr) receiver_->OnPeerLost(host, status);
    if (frame_receiver_ != nullptr) frame_receiver_->OnLeft(host, status);
  }
  for (const auto& [host, peer] : now) {
    if (!peer->name().empty()) context_->SetName(host, peer->name());
    std::unique_ptr<Outgoing>& out = outgoing_[host];
    if (out == nullptr) out = std::make_unique<Outgoing>(this, host);
    out->address = peer->address();
    out->takes_shared = peer->takes_shared() && host_memory_->shares();
  }
}

bool Peers::TakesShared(HostId host) const {
  auto it = outgoing_.find(host);
  return it != outgoing_.end() && it->second->takes_shared;
}

net::Counters Peers::counters(HostId host) const {
  auto it = outgoing_.find(host);
  return it == outgoing_.end() || it->second->connection == nullptr ? net::Counters() : it->second->connection->counters();
}

void Peers::Send(HostId to, uint64_t transfer, SessionId session, Bytes data, Sent sent) {
  Queue(to, {transfer, session, std::move(data), 0, absl::OkStatus(), std::move(sent)});
}

void Peers::SendFailed(HostId to, uint64_t transfer, const absl::Status& status) {
  Queue(to, {transfer, SessionId(), Bytes(), 0, status, [](const absl::Status&) {}});
}

void Peers::Queue(HostId to, Item item) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) {
    return std::move(item.sent)(UnreachableHostError(to, absl::StrCat(context_->NameOf(to), " is not in the cluster")));
  }
  it->second->queue.push_back(std::move(item));
  if (it->second->connection != nullptr) return Pump(to);
  Connect(to);
}

void Peers::SendFrame(HostId to, std::string header, std::vector<Bytes> payload) {
  v1::PeerMessage message;
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  message.mutable_dataflow()->set_header(std::move(header));
  message.mutable_dataflow()->set_payload_bytes(bytes);
  SendAhead(to, message, std::move(payload));
}

void Peers::SendReport(HostId to, v1::Report report) {
  v1::PeerMessage message;
  *message.mutable_report() = std::move(report);
  SendAhead(to, message, {});
}

// Sends a message ahead of waiting transfers.
void Peers::SendAhead(HostId to, const v1::PeerMessage& message, std::vector<Bytes> payload) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) {
    return PathBroken(to, UnreachableHostError(to, absl::StrCat(context_->NameOf(to), " is not in the cluster")));
  }
  it->second->frames.emplace_back(message.SerializeAsString(), std::move(payload));
  if (it->second->connection != nullptr) return PumpFrames(it->second.get());
  Connect(to);
}

// The dataflow has its own windows and reports are small, so neither waits for the connection's window.
void Peers::PumpFrames(Outgoing* out) {
  for (auto& [header, payload] : std::exchange(out->frames, {}))
    out->connection->Send(std::move(header), std::move(payload), net::Lane::kBulk);
}

void Peers::PathBroken(HostId host, const absl::Status& reason) {
  context_->strand()->Post([this, alive = context_->alive(), host, reason] {
    if (!alive.expired() && frame_receiver_ != nullptr) frame_receiver_->OnPathBroken(host, reason);
    if (!alive.expired() && report_receiver_ != nullptr) report_receiver_->OnReportsLost(host);
  });
}

void Peers::Connect(HostId to) {
  Outgoing& out = *outgoing_[to];
  if (out.connecting) return;
  out.connecting = true;
  // The callback runs on a thread of the transport.
  transport_->Connect(out.address, kConnectTimeout,
                      [this, to, strand = context_->strand(),
                       alive = context_->alive()](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
                        auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
                        strand->Post([this, to, alive, shared] {
                          if (!alive.expired()) Connected(to, std::move(*shared));
                        });
                      });
}

void Peers::Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  Outgoing& out = *it->second;
  out.connecting = false;
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kWorker) : connection.status();
  if (!status.ok()) {
    return FailQueue(&out, UnreachableHostError(to, absl::StrCat("cannot reach ", context_->NameOf(to), " at ", out.address, ": ",
                                                                 status.message())));
  }
  out.connection = *std::move(connection);
  out.connection->Start(&out);
  v1::PeerMessage hello;
  hello.mutable_hello()->set_from_host(context_->self().v);
  hello.mutable_hello()->set_incarnation(incarnation_);
  out.connection->Send(hello.SerializeAsString(), net::Lane::kBulk);
  for (uint64_t transfer : std::exchange(out.on_the_way, {})) {
    Item lost{transfer,
              SessionId(),
              Bytes(),
              0,
              absl::UnavailableError(
                  absl::StrCat("the connection from ", context_->NameOf(context_->self()), " broke during the transfer")),
              [](const absl::Status&) {}};
    out.queue.push_front(std::move(lost));
  }
  PumpFrames(&out);
  Pump(to);
}

// Sends everything on the bulk lane, so that frames arrive in the order of the transfers.
void Peers::Pump(HostId to) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end() || it->second->connection == nullptr) return;
  Outgoing& out = *it->second;
  std::vector<Sent> sent;
  while (!out.queue.empty() && out.connection->CanSendBulk()) {
    Item& item = out.queue.front();
    if (item.failed.ok() && out.takes_shared && net::NameOf(item.data).has_value()) {
      Lend(&out, std::move(item));
      out.queue.pop_front();
      continue;
    }
    v1::PeerMessage message;
    std::vector<Bytes> payload;
    if (!item.failed.ok()) {
      message.mutable_failed()->set_transfer(item.transfer);
      *message.mutable_failed()->mutable_status() = ToProto(item.failed);
    } else {
      const size_t size =
          std::min(host_memory_->peers_in_process() ? kHandedOverBytes : kChunkBytes, item.data.size() - item.offset);
      v1::Chunk* chunk = message.mutable_chunk();
      chunk->set_transfer(item.transfer);
      chunk->set_offset(item.offset);
      chunk->set_total_bytes(item.data.size());
      chunk->set_payload_bytes(size);
      chunk->set_session(item.session.v);
      if (size > 0) payload.push_back(item.data.Slice(item.offset, size));
      if (checksum_) chunk->set_crc32c(Crc32c(item.data.view().substr(item.offset, size)));
      item.offset += size;
    }
    out.connection->Send(message.SerializeAsString(), std::move(payload), net::Lane::kBulk);
    if (item.failed.ok() && item.offset < item.data.size()) continue;
    if (item.failed.ok()) out.on_the_way.push_back(item.transfer);
    if (out.on_the_way.size() > kRemembered) out.on_the_way.pop_front();
    sent.push_back(std::move(item.sent));
    out.queue.pop_front();
  }
  for (Sent& callback : sent) std::move(callback)(absl::OkStatus());
}

void Peers::Lend(Outgoing* out, Item item) {
  v1::PeerMessage message;
  v1::Chunk* chunk = message.mutable_chunk();
  chunk->set_transfer(item.transfer);
  chunk->set_total_bytes(item.data.size());
  chunk->set_session(item.session.v);
  if (checksum_) chunk->set_crc32c(Crc32c(item.data.view()));
  net::WriteName(*net::NameOf(item.data), chunk->mutable_shared());
  out->connection->Send(message.SerializeAsString(), net::Lane::kBulk);
  out->on_the_way.push_back(item.transfer);
  if (out->on_the_way.size() > kRemembered) out->on_the_way.pop_front();
  out->unopened.Add(item.transfer, item.session, std::move(item.data),
                    [sent = std::move(item.sent)]() mutable { std::move(sent)(absl::OkStatus()); });
}

void Peers::Returned(HostId to, const v1::SharedTaken& taken) {
  for (uint64_t transfer : taken.transfers()) {
    auto it = outgoing_.find(to);  // find again: callbacks of returned unopened may have changed the map
    if (it != outgoing_.end()) it->second->unopened.Return(transfer);
  }
}

void Peers::OutgoingLost(HostId to, const absl::Status& reason) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  it->second->connection.reset();
  FailQueue(it->second.get(), UnreachableHostError(to, absl::StrCat("the connection to ", context_->NameOf(to), " at ",
                                                                    it->second->address, " broke: ", reason.message())));
}

void Peers::FailQueue(Outgoing* out, const absl::Status& status) {
  out->frames.clear();
  PathBroken(out->host, status);
  std::deque<Item> queue;
  queue.swap(out->queue);
  // The receiver may have opened the lent memory. It learns separately of the broken connection (on_the_way). Here the send has ended.
  for (auto& [transfer, returned] : out->unopened.DropAll()) std::move(returned)();
  for (Item& item : queue) {
    // The other side may wait for the transfer. It is told when the connection has been made again.
    out->on_the_way.push_back(item.transfer);
    std::move(item.sent)(status);
  }
  while (out->on_the_way.size() > kRemembered) out->on_the_way.pop_front();
}

void Peers::Accept(std::unique_ptr<net::Connection> connection) {
  const net::PeerProof proof = connection->proof();
  if (proof == net::PeerProof::kStranger || proof == net::PeerProof::kController) return;  // destroyed, which closes it
  const uint64_t id = next_incoming_++;
  auto in = std::make_unique<Incoming>(this, id);
  in->connection = std::move(connection);
  Incoming* raw = in.get();
  incoming_[id] = std::move(in);
  raw->connection->Start(raw);
}

void Peers::OnFrame(uint64_t id, const v1::PeerMessage& message, Bytes payload) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  if (absl::Status status = Handle(it->second.get(), message, std::move(payload)); !status.ok())
    it->second->connection->Close(status);
}

absl::Status Peers::Handle(Incoming* in, const v1::PeerMessage& message, Bytes payload) {
  if (!in->greeted) {
    if (!message.has_hello()) return absl::FailedPreconditionError("a worker's first message to another worker must be a hello");
    if (message.hello().incarnation() != incarnation_)
      return absl::FailedPreconditionError("a worker of another controller's life called; it must join again");
    in->greeted = true;
    in->from = HostId(message.hello().from_host());
    std::vector<uint64_t> earlier;  // earlier connections of that host: broken, even if not yet reported here
    for (const auto& [id, other] : incoming_) {
      if (other.get() != in && other->greeted && other->from == in->from) earlier.push_back(id);
    }
    for (uint64_t id : earlier) IncomingLost(id, absl::UnavailableError("that worker has opened a newer connection"));
    return absl::OkStatus();
  }
  switch (message.kind_case()) {
    case v1::PeerMessage::kChunk:
      if (message.chunk().has_shared()) return TakeShared(in, message.chunk());
      if (message.chunk().payload_bytes() != payload.size())
        return absl::InvalidArgumentError("a chunk's announced size differs from its frame's");
      if (!context_->ended(SessionId(message.chunk().session()))) Deliver(in, message.chunk(), std::move(payload));
      return absl::OkStatus();
    case v1::PeerMessage::kFailed:
      receiver_->OnTransferFailed(in->from, message.failed().transfer(), FromProto(message.failed().status()));
      return absl::OkStatus();
    case v1::PeerMessage::kDataflow:
      if (message.dataflow().payload_bytes() != payload.size())
        return absl::InvalidArgumentError("a dataflow frame's announced size differs from its own");
      if (frame_receiver_ != nullptr) frame_receiver_->OnPeerFrame(in->from, message.dataflow(), std::move(payload));
      return absl::OkStatus();
    case v1::PeerMessage::kReport:
      if (report_receiver_ != nullptr) report_receiver_->OnReport(in->from, message.report());
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("another worker sent a message of unknown kind");
  }
}

void Peers::Deliver(Incoming* in, const v1::Chunk& chunk, Bytes bytes) {
  if (!chunk.has_crc32c() || chunk.crc32c() == Crc32c(bytes.view())) return receiver_->OnChunk(in->from, chunk, std::move(bytes));
  receiver_->OnTransferFailed(
      in->from, chunk.transfer(),
      absl::DataLossError(absl::StrCat(
          "bytes that ", context_->NameOf(in->from), " sent to ", context_->NameOf(context_->self()),
          " were damaged on the way: ", bytes.size(), " bytes at ", chunk.offset(), " of a transfer of ", chunk.total_bytes(),
          " do not match their checksum. Compute the array again; if this recurs, look at the network and ",
          "the memory of both hosts")));
}

absl::Status Peers::TakeShared(Incoming* in, const v1::Chunk& chunk) {
  absl::StatusOr<Bytes> shared = net::OpenShared(net::ReadName(chunk.shared()), chunk.exclusive());
  v1::PeerMessage answer;
  answer.mutable_taken()->add_transfers(chunk.transfer());
  in->connection->Send(answer.SerializeAsString(), net::Lane::kBulk);
  if (context_->ended(SessionId(chunk.session()))) return absl::OkStatus();
  if (shared.ok())
    Deliver(in, chunk, *std::move(shared));
  else
    receiver_->OnTransferFailed(in->from, chunk.transfer(), shared.status());
  return absl::OkStatus();
}

void Peers::IncomingLost(uint64_t id, const absl::Status& reason) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  const bool greeted = it->second->greeted;
  const HostId from = it->second->from;
  incoming_.erase(it);
  if (!greeted) return;
  const absl::Status status =
      UnreachableHostError(from, absl::StrCat("the connection from ", context_->NameOf(from), " broke: ", reason.message()));
  if (frame_receiver_ != nullptr) frame_receiver_->OnPathBroken(from, status);
  if (receiver_ != nullptr) receiver_->OnPeerLost(from, status);
}

}  // namespace pw::worker
