#include "pathways/worker/transfer/peer_connections.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/unreachable_host.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

}  // namespace

struct PeerConnections::Outgoing : net::Connection::Handler {
  Outgoing(PeerConnections* owner, HostId host)
      : owner(owner), host(host), strand(owner->context_->strand()), alive(owner->context_->alive()) {}

  // On a thread of the transport.
  void OnFrame(net::Frame frame) override {
    v1::PeerMessage message;
    if (!message.ParseFromString(frame.header) || !message.has_taken()) return;  // no other message in this direction
    Post([taken = message.taken()](PeerConnections* p, HostId host) { p->transfers_.Returned(host, taken); });
  }
  void OnBulkWritable() override {
    Post([](PeerConnections* p, HostId host) { p->transfers_.Pump(host); });
  }
  void OnClosed(const absl::Status& reason) override {
    Post([reason](PeerConnections* p, HostId host) { p->OutgoingLost(host, reason); });
  }
  template <class F>
  void Post(F f) {
    strand->Post([owner = owner, host = host, alive = alive, f] {
      if (!alive.expired()) f(owner, host);
    });
  }

  PeerConnections* const owner;
  const HostId host;
  Executor* const strand;
  const std::weak_ptr<bool> alive;
  std::string address;
  bool connecting = false;
  std::unique_ptr<net::Connection> connection;
};

struct PeerConnections::Incoming : net::Connection::Handler {
  Incoming(PeerConnections* owner, uint64_t id)
      : owner(owner), id(id), strand(owner->context_->strand()), alive(owner->context_->alive()) {}

  void OnFrame(net::Frame frame) override {
    auto message = std::make_shared<v1::PeerMessage>();
    if (!message->ParseFromString(frame.header))
      return connection->Close(absl::InvalidArgumentError("another worker sent a message that does not parse"));
    may_land = may_land || (message->has_hello() && message->hello().incarnation() == owner->incarnation_);
    strand->Post([owner = owner, id = id, alive = alive, message, payload = std::move(frame.payload)]() mutable {
      if (!alive.expired()) owner->OnFrame(id, *message, std::move(payload));
    });
  }
  net::Place PlaceFor(const std::string& header, size_t payload_bytes) override {
    v1::PeerMessage message;
    if (!may_land || !message.ParseFromString(header) || !message.has_chunk()) return {};
    return owner->transfers_.receive_buffers()->Take(message.chunk().transfer(), message.chunk().offset(), payload_bytes);
  }
  void OnClosed(const absl::Status& reason) override {
    strand->Post([owner = owner, id = id, alive = alive, reason] {
      if (!alive.expired()) owner->IncomingLost(id, reason);
    });
  }

  PeerConnections* const owner;
  const uint64_t id;
  Executor* const strand;
  const std::weak_ptr<bool> alive;
  bool may_land = false;  // on the transport's thread
  bool greeted = false;
  HostId from;
  std::unique_ptr<net::Connection> connection;
};

PeerConnections::PeerConnections(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport,
                                 uint64_t incarnation)
    : context_(context),
      transport_(transport),
      incarnation_(incarnation),
      transfers_(context, host_memory, [this](HostId host) { Connect(host); }),
      frames_(context, [this](HostId host) { Connect(host); }) {}
PeerConnections::~PeerConnections() = default;

void PeerConnections::SetPeers(const v1::Peers& peers) {
  std::map<HostId, const v1::Peers::Peer*> now;
  for (const v1::Peers::Peer& peer : peers.peers()) now[HostId(peer.host())] = &peer;
  std::vector<HostId> gone;
  for (const auto& [host, out] : outgoing_) {
    if (now.count(host) == 0) gone.push_back(host);
  }
  for (HostId host : gone) {
    const absl::Status status = UnreachableHostError(host, absl::StrCat(context_->NameOf(host), " has left the cluster"));
    const std::unique_ptr<Outgoing> out = std::move(outgoing_[host]);  // destroyed last: it closes the connection
    outgoing_.erase(host);
    frames_.Remove(host, status);
    transfers_.Remove(host, status);
    frames_.TellLeft(host, status);
  }
  for (const auto& [host, peer] : now) {
    if (!peer->name().empty()) context_->SetName(host, peer->name());
    std::unique_ptr<Outgoing>& out = outgoing_[host];
    if (out == nullptr) out = std::make_unique<Outgoing>(this, host);
    out->address = peer->address();
    frames_.Add(host);
    transfers_.Add(host, peer->takes_shared());
  }
}

net::Counters PeerConnections::counters(HostId host) const {
  auto it = outgoing_.find(host);
  return it == outgoing_.end() || it->second->connection == nullptr ? net::Counters() : it->second->connection->counters();
}

// ---- to other workers

void PeerConnections::Connect(HostId to) {
  Outgoing& out = *outgoing_[to];
  if (out.connecting) return;
  out.connecting = true;
  auto connected = [this, to, strand = context_->strand(),
                    alive = context_->alive()](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
    auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
    strand->Post([this, to, alive, shared] {
      if (!alive.expired()) Connected(to, std::move(*shared));
    });
  };
  transport_->Connect(out.address, kConnectTimeout, std::move(connected));  // calls it on a thread of the transport
}

void PeerConnections::Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  Outgoing& out = *it->second;
  out.connecting = false;
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kWorker) : connection.status();
  if (!status.ok()) {
    const absl::Status error = UnreachableHostError(
        to, absl::StrCat("cannot reach ", context_->NameOf(to), " at ", out.address, ": ", status.message()));
    frames_.Broken(to, error);
    return transfers_.Broken(to, error);
  }
  out.connection = *std::move(connection);
  net::Connection* const made = out.connection.get();
  made->Start(&out);
  v1::PeerMessage hello;
  hello.mutable_hello()->set_from_host(context_->self().v);
  hello.mutable_hello()->set_incarnation(incarnation_);
  made->Send(hello.SerializeAsString(), net::Lane::kBulk);
  frames_.Connected(to, made);
  transfers_.Connected(to, made);
}

void PeerConnections::OutgoingLost(HostId to, const absl::Status& reason) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  it->second->connection.reset();
  const absl::Status error = UnreachableHostError(
      to, absl::StrCat("the connection to ", context_->NameOf(to), " at ", it->second->address, " broke: ", reason.message()));
  frames_.Broken(to, error);
  transfers_.Broken(to, error);
}

// ---- from other workers

void PeerConnections::Accept(std::unique_ptr<net::Connection> connection) {
  const net::PeerProof proof = connection->proof();
  if (proof == net::PeerProof::kStranger || proof == net::PeerProof::kController) return;  // destroyed, which closes it
  const uint64_t id = next_incoming_++;
  auto in = std::make_unique<Incoming>(this, id);
  in->connection = std::move(connection);
  Incoming* raw = in.get();
  incoming_[id] = std::move(in);
  raw->connection->Start(raw);
}

void PeerConnections::OnFrame(uint64_t id, const v1::PeerMessage& message, Bytes payload) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  Incoming* const in = it->second.get();
  const absl::Status status = in->greeted ? Handle(in, message, std::move(payload)) : Greet(in, message);
  if (!status.ok()) in->connection->Close(status);
}

absl::Status PeerConnections::Greet(Incoming* in, const v1::PeerMessage& message) {
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

absl::Status PeerConnections::Handle(Incoming* in, const v1::PeerMessage& message, Bytes payload) {
  switch (message.kind_case()) {
    case v1::PeerMessage::kChunk:
      return transfers_.OnChunk(in->from, in->connection.get(), message.chunk(), std::move(payload));
    case v1::PeerMessage::kFailed:
      transfers_.OnFailed(in->from, message.failed());
      return absl::OkStatus();
    case v1::PeerMessage::kDataflow:
      return frames_.OnFrame(in->from, message.dataflow(), std::move(payload));
    case v1::PeerMessage::kReport:
      frames_.OnReport(in->from, message.report());
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("another worker sent a message of unknown kind");
  }
}

void PeerConnections::IncomingLost(uint64_t id, const absl::Status& reason) {
  auto it = incoming_.find(id);
  if (it == incoming_.end()) return;
  const bool greeted = it->second->greeted;
  const HostId from = it->second->from;
  incoming_.erase(it);
  if (!greeted) return;
  const absl::Status status =
      UnreachableHostError(from, absl::StrCat("the connection from ", context_->NameOf(from), " broke: ", reason.message()));
  frames_.IncomingLost(from, status);
  transfers_.IncomingLost(from, status);
}

}  // namespace pw::worker
